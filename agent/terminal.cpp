#include "agent/terminal.hpp"

#include <sys/ioctl.h>
#include <unistd.h>

#include <cerrno>

namespace callgate::agent {

int lead_terminal(int slave) {
    if (::setsid() < 0) return errno;
    return ::ioctl(slave, TIOCSCTTY, 0) == 0 ? 0 : errno;
}

int take_terminal(const RunTerminal& terminal) {
    if (terminal.slave < 0) return 0;
    if (::setpgid(0, 0) != 0) return errno;
    if (terminal.foreground && ::tcsetpgrp(terminal.slave, ::getpid()) != 0) return errno;
    for (int fd = 0; fd <= 2; ++fd)
        if (terminal.replaces[static_cast<unsigned>(fd)] && ::dup2(terminal.slave, fd) < 0) return errno;
    return 0;
}

/// It fails only if the group is gone, which does not matter.
void give_terminal(int slave, pid_t group) { static_cast<void>(::tcsetpgrp(slave, group)); }

}  // namespace callgate::agent
