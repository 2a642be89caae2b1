#include "supervisor/approval/approval_service.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/post.hpp>
#include <stdexcept>
#include <system_error>

#include "base/clock.hpp"
#include "base/test_switch.hpp"
#include "base/write_all.hpp"
#include "supervisor/approval/protocol/connection.hpp"
#include "supervisor/kernel/target.hpp"

#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77  // Linux 6.5; Debian 12's headers lack it
#endif

namespace callgate::approval {

namespace asio = boost::asio;

namespace {

/// A run that has ended by then needs no socket.
constexpr auto socket_delay = std::chrono::milliseconds(50);

QuestionQueue::Settings queue_settings(const AskSettings& settings) {
    QuestionQueue::Settings queue;
    queue.timeout_ns = std::chrono::nanoseconds(settings.timeout).count();
    return queue;
}

/// Whether a process is of the run. A supervisor that connects acts for one that is. What a runtime adds to a
/// container descends from none of its processes, but lies in its PID namespace.
bool is_of_run(pid_t process, pid_t guardian, bool of_container) {
    if (process == guardian || kernel::descends_from(process, guardian)) return true;
    if (!check_enabled("approver-of-container")) return false;
    return process == ::getpid() || (of_container && kernel::lies_in_pid_namespace_beneath(process));
}

/// Whether a process may answer: it is of this user, alive, and not of the run. With a handle from the kernel
/// (Linux 6.5) its number cannot have become another's meanwhile.
bool may_answer(int fd, const audit::Answerer& who, std::uint32_t user, pid_t guardian, bool of_container) {
    if (who.uid != user || who.pid <= 0) return false;
    int number = -1;
    socklen_t size = sizeof number;
    UniqueFd handle;
    if (::getsockopt(fd, SOL_SOCKET, SO_PEERPIDFD, &number, &size) == 0) {
        handle.reset(number);
    } else if (errno != ENOPROTOOPT) {
        return false;  // it is gone
    }
    const auto peer = kernel::identity(who.pid);
    if (!peer || is_of_run(who.pid, guardian, of_container)) return false;
    if (!handle) return true;
    pollfd gone{handle.get(), POLLIN, 0};
    return ::poll(&gone, 1, 0) == 0;
}

}  // namespace

/// The run's socket: accepts connections of those who may answer.
class ApprovalService::Socket {
public:
    Socket(ApprovalService& service, RunSocket point)
        : service_(service),
          token_(std::move(point.token)),
          listening_(service.run_.loop, point.listening.release()),
          user_(peer_of(listening_.native_handle(), "socket").uid) {
        wait();
    }
    ~Socket() {
        if (!service_.run_.socket) remove_run_socket(service_.settings_.runtime_directory, service_.run_.run);
    }

private:
    void wait() {
        listening_.async_wait(asio::posix::stream_descriptor::wait_read,
                              [this](const boost::system::error_code& error) {
                                  if (error) return;
                                  accept();
                                  wait();
                              });
    }
    void accept() {
        constexpr std::size_t max_connections = 64;
        UniqueFd fd(::accept4(listening_.native_handle(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
        if (!fd || service_.connections_.size() >= max_connections) return;
        audit::Answerer who = peer_of(fd.get(), "socket");
        if (!may_answer(fd.get(), who, user_, service_.run_.guardian, service_.run_.of_container)) return;
        service_.add_connection(std::move(fd), std::move(who), token_, rules::DecidedBy::person);
    }

    ApprovalService& service_;
    std::string token_;
    asio::posix::stream_descriptor listening_;
    const std::uint32_t user_;  // who listens, as this user namespace names him
};

ApprovalService::ApprovalService(AskSettings settings, RunParts run, ApprovalOwner& owner)
    : settings_(std::move(settings)),
      run_(std::move(run)),
      owner_(owner),
      log_(run_.log, run_.note_tree),
      questions_(queue_settings(settings_), log_, *this),
      ticks_(run_.loop),
      opening_(run_.loop) {}

ApprovalService::~ApprovalService() = default;

void ApprovalService::start() {
    started_ns_ = monotonic_ns();
    if (settings_.who == AskSettings::Who::descriptor) {
        UniqueFd fd(::fcntl(settings_.descriptor, F_DUPFD_CLOEXEC, 3));
        ::close(settings_.descriptor);  // so the command never gets it
        audit::Answerer who = peer_of(fd.get(), "fd");
        ::fcntl(fd.get(), F_SETFL, ::fcntl(fd.get(), F_GETFL) | O_NONBLOCK);
        add_connection(std::move(fd), std::move(who), "", rules::DecidedBy::program);
        questions_.open(true);
    }
    if (settings_.who == AskSettings::Who::socket) {
        open_socket();
        if (!socket_)
            throw std::runtime_error("cannot make the run's socket in " + settings_.runtime_directory);
        questions_.open(true);
    }
    if (run_.terminal != nullptr) {
        const bool asks = asks_on_terminal() && (run_.may_ask || settings_.who == AskSettings::Who::terminal);
        if (asks_on_terminal()) questions_.open(true);
        if (!run_.terminal->start(questions_, *this, run_.run, settings_.config_directory, asks) && asks) {
            if (settings_.who == AskSettings::Who::terminal) {
                run_.terminal->stop();
                throw std::runtime_error(
                    "--ask tty: the terminal does not answer where its cursor is, so nobody could know "
                    "whether "
                    "a question is seen; give --ask socket, and answer with callgate approve");
            }
            lost_terminal_ = true;
            update_reachability();
        }
    }
    opening_.expires_after(socket_delay);
    opening_.async_wait([this](const boost::system::error_code& error) {
        if (!error) open_socket();
    });
}

void ApprovalService::stop() {
    stopped_ = true;
    if (run_.terminal != nullptr) run_.terminal->stop();
    static_cast<void>(questions_.tick());  // the callers are gone, so questions are withdrawn, not denied
    questions_.open(false);
    connections_.clear();
    socket_.reset();
}

bool ApprovalService::asks_on_terminal() const {
    using Who = AskSettings::Who;
    return run_.terminal != nullptr && !lost_terminal_ &&
           (settings_.who == Who::terminal || settings_.who == Who::automatic);
}

std::int64_t ApprovalService::now_ns() { return monotonic_ns(); }

bool ApprovalService::has_signal(pid_t thread) {
    const auto caller = kernel::status(thread);
    return caller && caller->pending != 0;
}

/// Any thread. A `callgate approve` waits for the questions of all runs.
bool ApprovalService::find_approver() {
    if (settings_.who != AskSettings::Who::automatic) return false;
    asio::post(run_.loop, [this] { open_socket(); });
    return approver_waits(settings_.runtime_directory);
}

/// Any thread.
void ApprovalService::terminal_lost() {
    asio::post(run_.loop, [this] {
        lost_terminal_ = true;
        update_reachability();
    });
}

/// If the socket cannot be made, the other channels stay.
void ApprovalService::open_socket() {
    if (socket_ || stopped_) return;
    if (run_.socket) {
        socket_ = std::make_unique<Socket>(*this, std::move(*run_.socket));
        return;
    }
    if (!make_runtime_directory(settings_.runtime_directory)) return;
    auto point = open_run_socket(settings_.runtime_directory, run_.run);
    if (point) socket_ = std::make_unique<Socket>(*this, std::move(*point));
}

void ApprovalService::add_connection(UniqueFd fd, audit::Answerer who, std::string token,
                                     rules::DecidedBy by) {
    ProtocolSession session(questions_, {run_.run, std::move(token), std::move(who), by}, *this);
    auto connection = std::make_unique<Connection>(run_.loop, std::move(fd), std::move(session));
    Connection* const one = connection.get();
    one->on_close([this, one] { remove(*one); });
    connections_.push_back(std::move(connection));
    one->session().show(questions_.questions());
    one->start();
}

std::string ApprovalService::status_of_run() {
    RunStatus status = owner_.run_status();
    status.age_ms = (monotonic_ns() - started_ns_) / 1'000'000;
    for (const auto& one : questions_.questions()) {
        ++status.questions;
        status.callers += one.callers;
    }
    status.grants = questions_.grants().size();
    return status_message(run_.run, status);
}

void ApprovalService::remove(Connection& connection) {
    std::erase_if(connections_, [&](const auto& one) { return one.get() == &connection; });
    update_reachability();
}

bool ApprovalService::attended() const {
    return std::ranges::any_of(connections_, [](const auto& one) { return one->session().authenticated(); });
}

/// A descriptor that is gone answers no more. Somebody may find a socket at any time; `auto` counts on one
/// only while an approver is connected.
void ApprovalService::update_reachability() {
    if (stopped_) return;
    const bool attached = attended();
    if (asks_on_terminal()) return;  // it says so when it is gone
    switch (settings_.who) {
        case AskSettings::Who::never:
            return;
        case AskSettings::Who::socket:
            return questions_.open(true);
        default:
            return questions_.open(attached);
    }
}

/// Any thread.
void ApprovalService::questions_changed() {
    if (run_.terminal != nullptr) run_.terminal->wake();
    if (synchronising_.exchange(true)) return;
    asio::post(run_.loop, [this] {
        synchronising_.store(false);
        synchronise();
    });
}

void ApprovalService::synchronise() {
    if (stopped_) return;
    const auto questions = questions_.questions();
    for (const auto& one : connections_) {
        one->session().show(questions);
        one->flush();
    }
    announce(!questions.empty());
    if (!told_ && !questions.empty() && run_.begin_to_wait)
        run_.begin_to_wait(*questions.front().question, questions.size());
    told_ = !questions.empty();
    if (!questions.empty() && !ticking_) tick();
}

/// With --ask socket the command just seems to hang, so its terminal says why, once for each wait. An
/// approver that is connected shows the question itself.
void ApprovalService::announce(bool questions_wait) {
    const bool waits = questions_wait && settings_.who == AskSettings::Who::socket && !attended();
    if (!std::exchange(announced_, waits) && waits && ::isatty(2) != 0)
        static_cast<void>(write_all(2, "\r\ncallgate: run " + run_.run +
                                           " waits for an answer; give it in another terminal with: callgate "
                                           "approve " +
                                           run_.run + "\r\n"));
}

void ApprovalService::tick() {
    ticking_ = true;
    ticks_.expires_after(std::chrono::milliseconds(QuestionQueue::tick_interval_ms));
    ticks_.async_wait([this](const boost::system::error_code& error) {
        ticking_ = false;
        if (error || stopped_) return;
        if (questions_.tick()) tick();
    });
}

}  // namespace callgate::approval
