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

#include "supervisor/approval/protocol/connection.hpp"
#include "supervisor/approval/protocol/runtime_directory.hpp"
#include "supervisor/approval/terminal/terminal.hpp"
#include "base/clock.hpp"
#include "supervisor/kernel/target.hpp"

#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77  // Linux 6.5; Debian 12's headers lack it
#endif

namespace callgate::approval {

namespace asio = boost::asio;

namespace {

/// A run that has ended by then needs no socket.
constexpr auto socket_delay = std::chrono::milliseconds(50);

QuestionQueue::Settings broker_settings(const AskSettings& settings) {
    QuestionQueue::Settings broker;
    broker.timeout_ns = std::chrono::nanoseconds(settings.timeout).count();
    return broker;
}

/// Whether a process may answer: ours, alive, and none of the run. Where the kernel gives a handle on it
/// (Linux 6.5), its number cannot have become another's meanwhile.
bool may_answer(int fd, const audit::Answerer& who, pid_t guardian) {
    if (who.uid != ::geteuid() || who.pid <= 0) return false;
    int number = -1;
    socklen_t size = sizeof number;
    UniqueFd handle;
    if (::getsockopt(fd, SOL_SOCKET, SO_PEERPIDFD, &number, &size) == 0) {
        handle.reset(number);
    } else if (errno != ENOPROTOOPT) {
        return false;  // it is gone
    }
    const auto peer = kernel::identity(who.pid);
    if (!peer || who.pid == guardian || kernel::descends_from(who.pid, guardian)) return false;
    if (!handle) return true;
    pollfd gone{handle.get(), POLLIN, 0};
    return ::poll(&gone, 1, 0) == 0;
}

}  // namespace

/// The run's socket: takes connections and makes links of those that may answer.
class ApprovalService::Socket {
public:
    Socket(ApprovalService& desk, MeetingPoint point)
        : desk_(desk),
          token_(std::move(point.token)),
          listening_(desk.environment_.loop, point.listening.release()) {
        wait();
    }
    ~Socket() { leave_meeting_point(desk_.settings_.runtime_directory, desk_.environment_.run); }

private:
    void wait() {
        listening_.async_wait(asio::posix::stream_descriptor::wait_read,
                              [this](const boost::system::error_code& error) {
                                  if (error) return;
                                  take();
                                  wait();
                              });
    }
    void take() {
        constexpr std::size_t max_links = 64;
        UniqueFd fd(::accept4(listening_.native_handle(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
        if (!fd || desk_.links_.size() >= max_links) return;
        audit::Answerer who = peer_of(fd.get(), "socket");
        if (!may_answer(fd.get(), who, desk_.environment_.guardian)) return;
        desk_.add_link(std::move(fd), std::move(who), token_, rules::DecidedBy::person);
    }

    ApprovalService& desk_;
    std::string token_;
    asio::posix::stream_descriptor listening_;
};

ApprovalService::ApprovalService(AskSettings settings, Environment environment)
    : settings_(std::move(settings)),
      environment_(std::move(environment)),
      journal_(environment_.log),
      broker_(broker_settings(settings_), journal_,
              {.now_ns = monotonic_ns,
               .has_signal =
                   [](pid_t thread) {
                       const auto caller = kernel::status(thread);
                       return caller && caller->pending != 0;
                   },
               .resume = [this](ParkedCalls calls) { environment_.resume(std::move(calls)); },
               .changed = [this] { changed(); },
               .seek = [this] { return seek(); },
               .kill = [this] { environment_.kill(); }}),
      ticks_(environment_.loop),
      opening_(environment_.loop) {}

ApprovalService::~ApprovalService() = default;

void ApprovalService::start() {
    started_ns_ = monotonic_ns();
    if (settings_.who == AskSettings::Who::descriptor) {
        UniqueFd fd(::fcntl(settings_.descriptor, F_DUPFD_CLOEXEC, 3));
        ::close(settings_.descriptor);  // the command never gets it
        audit::Answerer who = peer_of(fd.get(), "fd");
        ::fcntl(fd.get(), F_SETFL, ::fcntl(fd.get(), F_GETFL) | O_NONBLOCK);
        add_link(std::move(fd), std::move(who), "", rules::DecidedBy::program);
        broker_.open(true);
    }
    if (settings_.who == AskSettings::Who::socket) {
        open_socket();
        if (!socket_)
            throw std::runtime_error("cannot make the run's socket in " + settings_.runtime_directory);
        broker_.open(true);
    }
    if (environment_.terminal != nullptr) {
        broker_.open(true);
        environment_.terminal->start({.broker = &broker_,
                                      .run = environment_.run,
                                      .config = settings_.config_directory,
                                      .suspend = environment_.suspend,
                                      .lost =
                                          [this] {
                                              asio::post(environment_.loop, [this] {
                                                  terminal_lost_ = true;
                                                  weigh_reachability();
                                              });
                                          },
                                      .regained = environment_.regained});
    }
    opening_.expires_after(socket_delay);
    opening_.async_wait([this](const boost::system::error_code& error) {
        if (!error) open_socket();
    });
}

void ApprovalService::stop() {
    stopped_ = true;
    if (environment_.terminal != nullptr) environment_.terminal->stop();
    static_cast<void>(broker_.tick());  // who asked is gone: withdrawn, not denied
    broker_.open(false);
    links_.clear();
    socket_.reset();
}

/// Any thread: whether somebody waits for the questions of whatever run.
bool ApprovalService::seek() {
    if (settings_.who != AskSettings::Who::automatic) return false;
    asio::post(environment_.loop, [this] { open_socket(); });
    return approver_waits(settings_.runtime_directory);
}

/// Where it cannot be had, nobody answers by it.
void ApprovalService::open_socket() {
    if (socket_ || stopped_ || !make_meeting_place(settings_.runtime_directory)) return;
    auto point = open_meeting_point(settings_.runtime_directory, environment_.run);
    if (point) socket_ = std::make_unique<Socket>(*this, std::move(*point));
}

void ApprovalService::add_link(UniqueFd fd, audit::Answerer who, std::string token, rules::DecidedBy by) {
    ProtocolSession conversation(broker_, {environment_.run, std::move(token), std::move(who), by},
                              {.now_ns = monotonic_ns,
                               .status = [this] { return status(); },
                               .stop = environment_.stop,
                               .arrived = [this] { weigh_reachability(); }});
    auto link = std::make_unique<Connection>(environment_.loop, std::move(fd), std::move(conversation));
    Connection* const one = link.get();
    one->on_close([this, one] { remove(*one); });
    links_.push_back(std::move(link));
    one->conversation().show(broker_.questions());
    one->start();
}

std::string ApprovalService::status() const {
    RunStatus status = environment_.status();
    status.age_ms = (monotonic_ns() - started_ns_) / 1'000'000;
    for (const auto& one : broker_.questions()) {
        ++status.questions;
        status.callers += one.callers;
    }
    status.grants = broker_.grants().size();
    return status_message(environment_.run, status);
}

void ApprovalService::remove(Connection& link) {
    std::erase_if(links_, [&link](const auto& one) { return one.get() == &link; });
    weigh_reachability();
}

/// A descriptor that is gone answers no more; a socket may be found by somebody any time, but nobody is asked
/// by `auto` unless somebody is there.
void ApprovalService::weigh_reachability() {
    if (stopped_) return;
    const bool attached =
        std::ranges::any_of(links_, [](const auto& one) { return one->conversation().authenticated(); });
    if (environment_.terminal != nullptr && !terminal_lost_) return;  // it says by itself when it is gone
    switch (settings_.who) {
        case AskSettings::Who::never:
            return;
        case AskSettings::Who::socket:
            return broker_.open(true);
        default:
            return broker_.open(attached);
    }
}

/// Any thread.
void ApprovalService::changed() {
    if (environment_.terminal != nullptr) environment_.terminal->wake();
    if (synchronising_.exchange(true)) return;
    asio::post(environment_.loop, [this] {
        synchronising_.store(false);
        synchronise();
    });
}

void ApprovalService::synchronise() {
    if (stopped_) return;
    const auto questions = broker_.questions();
    for (const auto& link : links_) {
        link->conversation().show(questions);
        link->flush();
    }
    if (!questions.empty() && !ticking_) tick();
}

void ApprovalService::tick() {
    ticking_ = true;
    ticks_.expires_after(std::chrono::milliseconds(QuestionQueue::tick_interval_ms));
    ticks_.async_wait([this](const boost::system::error_code& error) {
        ticking_ = false;
        if (error || stopped_) return;
        if (broker_.tick()) tick();
    });
}

}  // namespace callgate::approval
