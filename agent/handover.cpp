#include "agent/handover.hpp"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include "base/descriptor_message.hpp"
#include "base/result.hpp"

namespace callgate::agent {
namespace {

using boost::system::error_code;
using boost::system::result;

using Parcel = DescriptorMessage<char, 1>;

bool send_descriptor(int socket, int descriptor) {
    Parcel parcel;
    parcel.content = 'l';
    parcel.attach({&descriptor, 1});
    return ::sendmsg(socket, &parcel.header, MSG_NOSIGNAL) == 1;
}

/// The courier shares the agent's descriptor table: a descriptor that the agent opens appears here.
[[noreturn]] void be_courier(int orders, int socket, pid_t agent) {
    // The courier holds both ends of the pipe, so it gets no end of file. Only the agent's death ends its
    // wait.
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != agent) ::_exit(1);
    int descriptor = -1;
    ssize_t got = -1;
    while ((got = ::read(orders, &descriptor, sizeof descriptor)) < 0 && errno == EINTR) {
    }
    ::_exit(got == sizeof descriptor && send_descriptor(socket, descriptor) ? 0 : 1);
}

}  // namespace

bool pidfd_getfd_refused() {
    // The descriptor -1 names no process, so EBADF means that the call itself is permitted.
    return ::syscall(SYS_pidfd_getfd, -1, 0, 0U) < 0 && errno != EBADF;
}

result<HandoverSocket> make_handover_socket() {
    int ends[2];
    if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) return errno_code();
    const UniqueFd first(ends[0]), second(ends[1]);
    HandoverSocket made{UniqueFd(::fcntl(first.get(), F_DUPFD_CLOEXEC, 3)),
                        UniqueFd(::fcntl(second.get(), F_DUPFD_CLOEXEC, 3))};
    if (!made.send || !made.receive) return errno_code();
    return made;
}

int Courier::start(int socket) {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) return errno;
    read_ = ends[0];
    write_ = ends[1];
    const pid_t agent = ::getpid();
    // The courier's end sends no SIGCHLD: a command whose caller blocked that signal would find it pending.
    process_ = static_cast<pid_t>(::syscall(SYS_clone, CLONE_FILES, 0UL, 0UL, 0UL, 0UL));
    if (process_ == 0) be_courier(read_, socket, agent);
    return process_ < 0 ? errno : 0;
}

int Courier::carry(int descriptor) {
    int error = 0, status = 0;
    if (::write(write_, &descriptor, sizeof descriptor) != sizeof descriptor) error = errno;
    if (error != 0) ::kill(process_, SIGKILL);
    pid_t gone = 0;
    while ((gone = ::wait4(process_, &status, __WALL, nullptr)) < 0 && errno == EINTR) {
    }
    ::close(read_);
    ::close(write_);
    if (error != 0) return error;
    if (gone != process_) return ECHILD;
    return status == 0 ? 0 : EPIPE;
}

result<UniqueFd> receive_descriptor(const UniqueFd& socket) {
    Parcel parcel;
    ssize_t got = -1;
    while ((got = ::recvmsg(socket.get(), &parcel.header, MSG_CMSG_CLOEXEC | MSG_DONTWAIT)) < 0 &&
           errno == EINTR) {
    }
    if (got < 0) return errno_code();
    std::array<int, 1> descriptor{-1};
    if (parcel.take(descriptor) != 1) return error_code(EPROTO, boost::system::system_category());
    return UniqueFd(descriptor.front());
}

}  // namespace callgate::agent
