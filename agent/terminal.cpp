#include "agent/terminal.hpp"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cerrno>

#include "base/test_switch.hpp"

namespace callgate::agent {

int lead_terminal(int slave) {
    if (::setsid() < 0) return errno;
    return ::ioctl(slave, TIOCSCTTY, 0) == 0 ? 0 : errno;
}

namespace {

/// The children of a process that is no session leader are without a terminal, too (tty_ioctl(4)).
int leave_terminal() {
    if (!check_enabled("leaves-terminal")) return 0;
    const int terminal = ::open("/dev/tty", O_RDWR | O_CLOEXEC | O_NONBLOCK);
    if (terminal < 0) return errno == ENXIO ? 0 : errno;
    const int error = ::ioctl(terminal, TIOCNOTTY) == 0 ? 0 : errno;
    ::close(terminal);
    return error;
}

}  // namespace

int take_terminal(const RunTerminal& terminal) {
    if (terminal.slave < 0) return terminal.leave ? leave_terminal() : 0;
    if (::setpgid(0, 0) != 0) return errno;
    if (terminal.foreground && ::tcsetpgrp(terminal.slave, ::getpid()) != 0) return errno;
    for (int fd = 0; fd <= 2; ++fd)
        if (terminal.replaces[static_cast<unsigned>(fd)] && ::dup2(terminal.slave, fd) < 0) return errno;
    return 0;
}

/// It fails only if the group is gone, which does not matter.
void give_terminal(int slave, pid_t group) { static_cast<void>(::tcsetpgrp(slave, group)); }

}  // namespace callgate::agent
