#include "supervisor/audit/write/syslog.hpp"

#include <poll.h>
#include <pthread.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <condition_variable>
#include <csignal>
#include <cstring>
#include <deque>
#include <mutex>
#include <optional>
#include <thread>

#include "base/unique_fd.hpp"
#include "supervisor/audit/write/log_file.hpp"

namespace callgate::audit {

namespace {

using Clock = std::chrono::steady_clock;

constexpr int poll_ms = 100;
/// A record may be longer than the kernel's default for one message.
constexpr int send_buffer = 4 << 20;

Result<UniqueFd> connect_to(const std::string& path) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    if (path.size() >= sizeof address.sun_path) return errno_code(ENAMETOOLONG);
    std::memcpy(address.sun_path, path.data(), path.size());
    UniqueFd fd(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    if (!fd) return errno_code();
    static_cast<void>(::setsockopt(fd.get(), SOL_SOCKET, SO_SNDBUF, &send_buffer, sizeof send_buffer));
    if (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0)
        return errno_code();
    return fd;
}

/// Notice for a call that would have been refused, warning for a refused one, error for kill; else
/// informational.
int severity_of(std::string_view line) {
    // Quotes that a target chose stand behind a backslash: the quotes in `text` are the record's own.
    const auto says = [line](std::string_view text) { return line.find(text) != std::string_view::npos; };
    if (!says(R"("verdict":")") || says(R"("verdict":"allow")")) return 6;
    if (says(R"("mechanism":"kill")")) return 3;
    return says(R"("mechanism":"errno")") ? 4 : 5;
}

}  // namespace

std::string syslog_message(std::string_view line, std::string_view host, int pid) {
    constexpr std::string_view before_time = R"({"@timestamp":")";
    constexpr int log_audit = 13;
    std::string message = "<" + std::to_string(log_audit * 8 + severity_of(line)) + ">1 ";
    // RFC 5424 allows microseconds; the record itself has the rest.
    constexpr std::size_t microseconds = 26;
    const bool timed = line.starts_with(before_time) && line.size() > before_time.size() + microseconds;
    if (timed) {
        message.append(line.substr(before_time.size(), microseconds)).append("Z");
    } else {
        message += '-';
    }
    message += ' ';
    for (const char one : host.substr(0, 255))
        if (one > ' ' && one < '\x7f') message += one;
    if (message.ends_with(' ')) message += '-';
    message += " callgate " + std::to_string(pid) + " audit - ";
    message += line;
    return message;
}

struct Syslog::State {
    std::string path, host;
    int pid = 0;
    UniqueFd socket;  // the sending thread's

    std::mutex lock;
    std::condition_variable changed;
    std::deque<std::string> waiting;
    std::size_t waiting_bytes = 0;
    std::uint64_t lost = 0;
    int error = 0;  // why the first one was lost
    std::optional<Clock::time_point> until;
    std::optional<std::thread> thread;

    void send_all();
    /// Returns 0, or the errno of the failure.
    int send(const std::string& message);
    void start();
    [[nodiscard]] bool out_of_time() {
        const std::lock_guard guard(lock);
        return until && Clock::now() >= *until;
    }
    void count_lost(std::uint64_t count, int why) {
        if (lost == 0) error = why;
        lost += count;
    }
};

int Syslog::State::send(const std::string& message) {
    bool again = false;
    for (;;) {
        if (::send(socket.get(), message.data(), message.size(), MSG_DONTWAIT | MSG_NOSIGNAL) >= 0) return 0;
        const int why = errno;
        if (why == EINTR) continue;
        if (why == EAGAIN || why == ENOBUFS) {
            if (out_of_time()) return why;
            pollfd one{socket.get(), POLLOUT, 0};
            static_cast<void>(::poll(&one, 1, poll_ms));
            continue;
        }
        // The daemon was restarted: connect once more by its name.
        if (again || (why != ECONNREFUSED && why != ENOTCONN && why != ECONNRESET && why != EPIPE))
            return why;
        Result<UniqueFd> fresh = connect_to(path);
        if (!fresh) return fresh.error().value();
        socket = std::move(*fresh);
        again = true;
    }
}

void Syslog::State::send_all() {
    std::unique_lock guard(lock);
    for (;;) {
        changed.wait(guard, [this] { return !waiting.empty() || until; });
        if (waiting.empty()) return;
        if (until && Clock::now() >= *until) {
            count_lost(waiting.size(), error != 0 ? error : EAGAIN);
            waiting.clear();
            return;
        }
        const std::string line = std::move(waiting.front());
        waiting.pop_front();
        waiting_bytes -= line.size();
        guard.unlock();
        const int why = send(syslog_message(line, host, pid));
        guard.lock();
        if (why != 0) count_lost(1, why);
    }
}

/// The thread starts with all signals blocked: those of the run are for other threads.
void Syslog::State::start() {
    sigset_t all, before;
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &before);
    try {
        thread.emplace([this] { send_all(); });
    } catch (const std::exception&) {
        count_lost(0, EAGAIN);
    }
    ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

Syslog::Syslog(std::unique_ptr<State> state) : state_(std::move(state)) {}

Syslog::~Syslog() { static_cast<void>(finish(std::chrono::milliseconds(0))); }

Result<std::unique_ptr<Syslog>> Syslog::open(const std::string& path) {
    auto state = std::make_unique<State>();
    Result<UniqueFd> socket = connect_to(path);
    if (!socket) return socket.error();
    state->socket = std::move(*socket);
    state->path = path;
    state->pid = ::getpid();
    utsname names{};
    if (::uname(&names) == 0) state->host = names.nodename;
    return std::unique_ptr<Syslog>(new Syslog(std::move(state)));
}

void Syslog::post(std::string_view line) {
    if (line.ends_with('\n')) line.remove_suffix(1);
    {
        const std::lock_guard guard(state_->lock);
        if (state_->until || state_->waiting_bytes + line.size() > max_waiting)
            return state_->count_lost(1, ENOBUFS);
        if (!state_->thread) state_->start();
        if (!state_->thread) return state_->count_lost(1, EAGAIN);
        state_->waiting.emplace_back(line);
        state_->waiting_bytes += line.size();
    }
    state_->changed.notify_one();
}

Syslog::Lost Syslog::finish(std::chrono::milliseconds patience) {
    {
        const std::lock_guard guard(state_->lock);
        if (!state_->until) state_->until = Clock::now() + patience;
    }
    state_->changed.notify_one();
    if (state_->thread && state_->thread->joinable()) state_->thread->join();
    return {state_->lost, errno_code(state_->error)};
}

}  // namespace callgate::audit
