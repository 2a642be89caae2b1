#include "supervisor/kernel/kept_sockets.hpp"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>

#include "base/clock.hpp"
#include "base/process/processes.hpp"
#include "base/test_switch.hpp"
#include "supervisor/kernel/acting_identity.hpp"
#include "supervisor/kernel/target.hpp"

namespace callgate::kernel {

namespace {

constexpr std::int64_t sweep_every_ns = 250'000'000;
constexpr std::int64_t least_rest = 100;  // times the length of the last sweep
constexpr std::size_t max_settled = 65536;

template <class T>
T option(int socket, int level, int name, T otherwise) {
    T value{};
    socklen_t size = sizeof value;
    return ::getsockopt(socket, level, name, &value, &size) == 0 ? value : otherwise;
}

bool is_connected(int socket) {
    sockaddr_storage peer{};
    socklen_t size = sizeof peer;
    return ::getpeername(socket, reinterpret_cast<sockaddr*>(&peer), &size) == 0;
}

bool is_connecting(int socket, int domain) {
    if (domain != AF_INET && domain != AF_INET6) return false;
    return option(socket, IPPROTO_TCP, TCP_INFO, tcp_info{}).tcpi_state == TCP_SYN_SENT;
}

/// Half of the descriptors that callgate may have.
std::size_t max_copies() {
    rlimit now{};
    if (::getrlimit(RLIMIT_NOFILE, &now) != 0) return 256;
    return static_cast<std::size_t>(std::min<rlim_t>(now.rlim_cur, 1U << 20U)) / 2;
}

ino_t inode_of(int socket) {
    struct stat status {};
    return ::fstat(socket, &status) == 0 ? status.st_ino : 0;
}

}  // namespace

Result<ino_t> socket_inode(pid_t thread, int number) {
    const auto pin = open_descriptor_pin(thread, number);
    if (!pin) return pin.error();
    struct stat object {};
    if (::fstat(pin->get(), &object) != 0) return errno_code();
    if (!S_ISSOCK(object.st_mode)) return errno_code(ENOTSOCK);
    return object.st_ino;
}

KeptSockets::KeptSockets(pid_t guardian, CapabilitySet keep_capabilities, bool listeners)
    : guardian_(guardian),
      listeners_(listeners),
      max_kept_(max_copies()),
      events_(::epoll_create1(EPOLL_CLOEXEC)),
      wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
    epoll_event event{};
    event.events = EPOLLIN;
    ::epoll_ctl(events_.get(), EPOLL_CTL_ADD, wake_.get(), &event);  // no socket has the inode 0
    sigset_t all, before;
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &before);  // other threads handle signals
    thread_ = std::thread([this, keep_capabilities] { run(keep_capabilities); });
    ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
    current = this;
}

KeptSockets::~KeptSockets() {
    current = nullptr;
    {
        const std::lock_guard lock(mutex_);
        ending_ = true;
    }
    ::eventfd_write(wake_.get(), 1);
    thread_.join();
}

Result<ino_t> KeptSockets::add(int socket, pid_t maker) {
    const auto full = [this] {
        const std::lock_guard lock(mutex_);
        return kept_.size() >= max_kept_;
    };
    if (full()) sweep();
    UniqueFd copy(full() ? -1 : ::fcntl(socket, F_DUPFD_CLOEXEC, 0));
    if (!copy) return errno_code(EMFILE);
    const ino_t inode = inode_of(socket);
    const std::lock_guard lock(mutex_);
    settled_.erase(inode);
    forget_locked(inode);
    kept_[inode] = {std::move(copy), maker};
    if (!awake_) {
        awake_ = true;
        ::eventfd_write(wake_.get(), 1);
    }
    return inode;
}

void KeptSockets::given(ino_t inode) {
    const std::lock_guard lock(mutex_);
    if (const auto found = kept_.find(inode); found != kept_.end()) found->second.given = true;
}

void KeptSockets::forget(ino_t inode) {
    const std::lock_guard lock(mutex_);
    forget_locked(inode);
}

void KeptSockets::forget_locked(ino_t inode) {
    const auto found = kept_.find(inode);
    if (found == kept_.end()) return;
    // The file lives on in the run, and so would the watch.
    if (found->second.watched) ::epoll_ctl(events_.get(), EPOLL_CTL_DEL, found->second.socket.get(), nullptr);
    kept_.erase(found);
}

Result<UniqueFd> KeptSockets::of(pid_t thread, int number) {
    const auto inode = socket_inode(thread, number);
    if (!inode) return inode.error();
    const std::lock_guard lock(mutex_);
    const auto found = kept_.find(*inode);
    if (found == kept_.end()) return errno_code(EPERM);
    UniqueFd copy(::fcntl(found->second.socket.get(), F_DUPFD_CLOEXEC, 0));
    if (!copy) return errno_code();
    return copy;
}

void KeptSockets::settle(int socket, int error) {
    const int type = option(socket, SOL_SOCKET, SO_TYPE, 0);
    if ((type != SOCK_STREAM && type != SOCK_SEQPACKET) || !check_enabled("settled-socket")) return;
    const int domain = option(socket, SOL_SOCKET, SO_DOMAIN, 0);
    const bool listens = option(socket, SOL_SOCKET, SO_ACCEPTCONN, 0) != 0;
    if (listens && listeners_ && domain != AF_UNIX) return;
    const bool connected = !listens && is_connected(socket);
    const ino_t inode = inode_of(socket);
    const std::lock_guard lock(mutex_);
    const auto found = kept_.find(inode);
    if (found == kept_.end()) return;
    if (!listens && !connected) {
        if (is_connecting(socket, domain)) watch(inode, found->second);
        return;
    }
    forget_locked(inode);
    if (settled_.size() >= max_settled) settled_.clear();
    // A connect that was put off says once that it is done.
    settled_[inode] = connected ? Settled{error == EINPROGRESS ? 0 : EISCONN, EINVAL}
                                : Settled{domain == AF_UNIX ? EINVAL : EISCONN, 0};
}

void KeptSockets::watch(ino_t inode, Kept& kept) {
    epoll_event event{};
    event.events = EPOLLOUT | EPOLLONESHOT;
    event.data.u64 = inode;
    const int what = kept.watched ? EPOLL_CTL_MOD : EPOLL_CTL_ADD;
    kept.watched = ::epoll_ctl(events_.get(), what, kept.socket.get(), &event) == 0;
}

/// A connect that was under way has ended: the socket is connected, or can be connected anew.
void KeptSockets::resume(ino_t inode) {
    UniqueFd copy;
    {
        const std::lock_guard lock(mutex_);
        const auto found = kept_.find(inode);
        if (found != kept_.end()) copy.reset(::fcntl(found->second.socket.get(), F_DUPFD_CLOEXEC, 0));
    }
    if (copy) settle(copy.get(), EINPROGRESS);
}

std::optional<KeptSockets::Settled> KeptSockets::settled(pid_t thread, int number) {
    const auto inode = socket_inode(thread, number);
    if (!inode) return std::nullopt;
    const std::lock_guard lock(mutex_);
    const auto found = settled_.find(*inode);
    if (found == settled_.end()) return std::nullopt;
    const Settled state = found->second;
    if (state.connect == 0) found->second.connect = EISCONN;
    return state;
}

/// Reads the run's descriptors once. A thread may have a table of its own, so makers are looked at too.
void KeptSockets::leave_out_held(Lost& lost) const {
    const auto look = [&lost](pid_t process) {
        each_socket(process, [&lost](int, ino_t inode) {
            lost.erase(inode);
            return lost.empty();
        });
    };
    const Lost before = lost;
    for_each_descendant(guardian_, [&](const Process& process) {
        if (!lost.empty() && process.alive()) look(process.pid);
    });
    for (const auto& [inode, maker] : before)
        if (lost.contains(inode)) look(maker);
}

void KeptSockets::sweep() {
    const std::lock_guard turn(sweeping_);
    Lost lost;
    {
        const std::lock_guard lock(mutex_);
        for (const auto& [inode, kept] : kept_)
            if (kept.given) lost.emplace(inode, kept.maker);
    }
    // A descriptor that moves while a list is read may be missed, so a second reading confirms.
    for (int reading = 0; reading < 2 && !lost.empty(); ++reading) leave_out_held(lost);
    const std::lock_guard lock(mutex_);
    for (const auto& [inode, maker] : lost) forget_locked(inode);
}

void KeptSockets::run(CapabilitySet keep_capabilities) {
    ::prctl(PR_SET_NAME, "callgate-keep");
    if (keep_capabilities != 0) {
        if (!begin_acting_with(keep_capabilities)) ::_exit(125);
    } else if (!drop_capabilities()) {
        ::_exit(125);
    }
    std::int64_t due = 0;  // of the next sweep; 0: none
    for (;;) {
        const std::int64_t left = due - monotonic_ns();
        const int wait = due == 0 ? -1 : static_cast<int>(std::max<std::int64_t>(left, 0) / 1'000'000 + 1);
        std::array<epoll_event, 64> events{};
        const int count = ::epoll_wait(events_.get(), events.data(), events.size(), wait);
        for (int index = 0; index < count; ++index) {
            const auto inode = static_cast<ino_t>(events[static_cast<std::size_t>(index)].data.u64);
            eventfd_t ignored = 0;
            if (inode == 0) ::eventfd_read(wake_.get(), &ignored);
            if (inode != 0) resume(inode);
        }
        bool wanted = false;
        {
            const std::lock_guard lock(mutex_);
            if (ending_) return;
            if (due == 0 || due <= monotonic_ns()) awake_ = !kept_.empty();
            wanted = awake_;
        }
        if (!wanted) {
            due = 0;
        } else if (due == 0) {
            due = monotonic_ns() + sweep_every_ns;
        } else if (const std::int64_t start = monotonic_ns(); due <= start) {
            sweep();
            const std::int64_t end = monotonic_ns();
            due = end + std::max(sweep_every_ns, least_rest * (end - start));
        }
    }
}

}  // namespace callgate::kernel
