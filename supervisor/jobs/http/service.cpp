#include "supervisor/jobs/http/service.hpp"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>

#include "base/number.hpp"
#include "base/process/spawn.hpp"
#include "tls/protocol.hpp"

namespace callgate::jobs::http {

namespace {

constexpr int backlog = 4096;
/// The front writes the last answers within this time, or is ended.
constexpr int last_answers_ms = 10'000;

Problem cannot(std::string_view address, const std::string& why) {
    return Problem{"--http " + std::string(address) + ": " + why};
}

Problem cannot(std::string_view address) { return cannot(address, errno_code().message()); }

/// Whether a server listens there.
bool is_served(const sockaddr_un& name) {
    const UniqueFd probe(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    return ::connect(probe.get(), reinterpret_cast<const sockaddr*>(&name), sizeof name) == 0 ||
           errno != ECONNREFUSED;
}

Expected<Listener> listen_unix(std::string_view address) {
    Listener made;
    made.path = address.substr(std::string_view("unix:").size());
    made.shown = address;
    sockaddr_un name{};
    name.sun_family = AF_UNIX;
    if (made.path.empty() || made.path.size() >= sizeof name.sun_path)
        return cannot(address, "expected unix:PATH, of at most 107 bytes");
    std::memcpy(name.sun_path, made.path.c_str(), made.path.size());
    struct stat status {};
    if (::lstat(made.path.c_str(), &status) == 0) {
        if (!S_ISSOCK(status.st_mode)) return cannot(address, "something else than a socket is there");
        if (is_served(name)) return cannot(address, "another process serves there");
        if (::unlink(made.path.c_str()) != 0) return cannot(address);
    }
    made.socket.reset(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    const mode_t before = ::umask(0177);
    const bool bound =
        made.socket && ::bind(made.socket.get(), reinterpret_cast<const sockaddr*>(&name), sizeof name) == 0;
    const int error = errno;
    ::umask(before);
    errno = error;
    if (!bound || ::listen(made.socket.get(), backlog) != 0 || ::lstat(made.path.c_str(), &status) != 0)
        return cannot(address);
    made.inode = status.st_ino;
    return made;
}

/// The address as the kernel takes it. The host is written in digits: nothing is looked up.
struct Name {
    sockaddr_storage storage{};
    socklen_t size = 0;
    bool loopback = false;
};

std::optional<Name> read_name(std::string_view host, std::uint16_t port) {
    Name name;
    auto& v4 = reinterpret_cast<sockaddr_in&>(name.storage);
    auto& v6 = reinterpret_cast<sockaddr_in6&>(name.storage);
    if (host == "localhost") host = "127.0.0.1";
    if (host.starts_with('[') && host.ends_with(']')) {
        v6.sin6_family = AF_INET6;
        v6.sin6_port = htons(port);
        name.size = sizeof v6;
        const std::string digits(host.substr(1, host.size() - 2));
        if (::inet_pton(AF_INET6, digits.c_str(), &v6.sin6_addr) != 1) return std::nullopt;
        name.loopback = IN6_IS_ADDR_LOOPBACK(&v6.sin6_addr);
        return name;
    }
    v4.sin_family = AF_INET;
    v4.sin_port = htons(port);
    name.size = sizeof v4;
    if (::inet_pton(AF_INET, std::string(host).c_str(), &v4.sin_addr) != 1) return std::nullopt;
    name.loopback = (ntohl(v4.sin_addr.s_addr) >> 24U) == IN_LOOPBACKNET;
    return name;
}

Expected<Listener> listen_tcp(std::string_view address, std::string_view scheme) {
    const std::size_t colon = address.rfind(':');
    std::string_view host = address.substr(0, colon);
    const auto port =
        parse_number<std::uint16_t>(colon == std::string_view::npos ? "" : address.substr(colon + 1));
    auto name = port ? read_name(host, *port) : std::nullopt;
    if (!name)
        return cannot(address,
                      "expected an address and a port, such as 127.0.0.1:8080 or [::1]:8080, or "
                      "unix:PATH");
    Listener made;
    made.loopback = name->loopback;
    auto* const generic = reinterpret_cast<sockaddr*>(&name->storage);
    made.socket.reset(::socket(generic->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    const int on = 1;
    for (const auto& [level, option] :
         {std::pair(SOL_SOCKET, SO_REUSEADDR), std::pair(SOL_SOCKET, SO_KEEPALIVE),
          std::pair(int{IPPROTO_TCP}, TCP_NODELAY)})
        if (!made.socket || ::setsockopt(made.socket.get(), level, option, &on, sizeof on) != 0)
            return cannot(address);
    if (::bind(made.socket.get(), generic, name->size) != 0 || ::listen(made.socket.get(), backlog) != 0 ||
        ::getsockname(made.socket.get(), generic, &name->size) != 0)
        return cannot(address);
    // The port stands at the same place in both families.
    const std::uint16_t bound = ntohs(reinterpret_cast<const sockaddr_in&>(name->storage).sin_port);
    made.shown = std::string(scheme) + "://" + std::string(host) + ':' + std::to_string(bound);
    if (host == "localhost") host = "127.0.0.1";
    made.address = std::string(host) + ':' + std::to_string(bound);
    return made;
}

/// `connections` is what the front gets as its listener.
Expected<Child> start_front(const UniqueFd& connections, const FrontSettings& settings, const UniqueFd& jobs,
                            const SignalState& signals) {
    auto file = make_file(text_of(settings));
    if (!file) return Problem{"cannot start the front of --http: " + file.error().message()};
    const UniqueFd socket(::fcntl(connections.get(), F_DUPFD_CLOEXEC, first_descriptor));
    const char* const path = ::getenv("PATH");
    auto child =
        spawn(own_program, {"callgate", front_word}, {std::string("PATH=") + (path == nullptr ? "" : path)},
              std::vector<std::pair<int, int>>{{jobs.get(), jobs_descriptor},
                                               {socket.get(), listener_descriptor},
                                               {file->get(), settings_descriptor}},
              signals);
    if (!child) return Problem{"cannot start the front of --http: " + child.error().message()};
    return std::move(*child);
}

/// A process's status, once it has written the last answers.
int wait_for_end(const Child& process) {
    pollfd ended{process.pidfd.get(), POLLIN, 0};
    if (::poll(&ended, 1, last_answers_ms) == 0) ::kill(process.pid, SIGKILL);
    return reap(process.pid);
}

Problem ended_by_itself(std::string_view who, int status) {
    return Problem{std::string(who) + " has ended by itself (" +
                   (WIFSIGNALED(status) ? "signal " + std::to_string(WTERMSIG(status))
                                        : "status " + std::to_string(WEXITSTATUS(status))) +
                   ")"};
}

}  // namespace

Expected<Listener> listen(std::string_view address, std::string_view scheme) {
    return address.starts_with("unix:") ? listen_unix(address) : listen_tcp(address, scheme);
}

Expected<std::string> read_token(std::string text) {
    while (text.ends_with('\n') || text.ends_with('\r') || text.ends_with(' ')) text.pop_back();
    constexpr std::string_view marks = "-._~";
    const bool good = std::ranges::all_of(text, [marks](char one) {
        return (one >= '0' && one <= '9') || (one >= 'a' && one <= 'z') || (one >= 'A' && one <= 'Z') ||
               marks.find(one) != std::string_view::npos;
    });
    if (!good || text.size() < 16 || text.size() > 256)
        return Problem{"expected 16 to 256 letters, digits or -._~, such as `openssl rand -hex 32` prints"};
    return text;
}

Expected<End> serve(const Settings& settings, const Listener& listener, const FrontSettings& front, Tls* tls,
                    std::chrono::milliseconds drain, const std::function<void()>& ready) {
    std::array<int, 2> pair{};
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair.data()) != 0)
        return Problem{"cannot start the front of --http: " + errno_code().message()};
    const UniqueFd ours(pair[0]);
    UniqueFd theirs(::fcntl(pair[1], F_DUPFD_CLOEXEC, first_descriptor));
    ::close(pair[1]);
    if (!theirs || ::dup2(ours.get(), STDIN_FILENO) < 0 || ::dup2(ours.get(), STDOUT_FILENO) < 0)
        return Problem{"cannot start the front of --http: " + errno_code().message()};
    Expected<Child> child = Child{};
    const SignalState signals = SignalState::current();
    const auto start = [&] {
        child = start_front(tls == nullptr ? listener.socket : tls->control, front, theirs, signals);
        theirs.reset();
        if (tls != nullptr) tls->control.reset();  // so that the front and callgate-tls see each other's end
        if (child) ready();
        return child.has_value();
    };
    const End how = jobs::serve(settings, front.jobs, {drain, start});
    if (!child) return child.error();
    ::shutdown(ours.get(), SHUT_RDWR);
    const int status = wait_for_end(*child);
    const int tls_status = tls == nullptr ? 0 : wait_for_end(tls->process);
    struct stat now {};
    if (!listener.path.empty() && ::lstat(listener.path.c_str(), &now) == 0 && now.st_ino == listener.inode)
        ::unlink(listener.path.c_str());
    if (tls_status != 0) return ended_by_itself(tls::program_name, tls_status);
    if (status != 0) return ended_by_itself("the front of --http", status);
    return how;
}

}  // namespace callgate::jobs::http
