#include "supervisor/approval/terminal/command_terminal.hpp"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/ioctl.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <string>

#include "agent/person_modes.hpp"

namespace callgate::approval {

namespace {

[[noreturn]] void fail(const char* what) {
    throw std::runtime_error(std::string(what) + ": " + std::strerror(errno));
}

}  // namespace

CommandTerminal::CommandTerminal(const PersonTerminal& person)
    : person_(person), master_(::posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC | O_NONBLOCK)) {
    std::array<char, 64> name{};
    if (!master_ || ::grantpt(master_.get()) != 0 || ::unlockpt(master_.get()) != 0 ||
        ::ptsname_r(master_.get(), name.data(), name.size()) != 0)
        fail("cannot make a terminal");
    slave_.reset(::open(name.data(), O_RDWR | O_NOCTTY | O_CLOEXEC));
    if (!slave_) fail(name.data());
    number_ = std::atoi(name.data() + std::strlen("/dev/pts/"));
    passed_ = person_.usual();
    ::tcsetattr(slave_.get(), TCSANOW, &passed_);
    ::tcgetattr(slave_.get(), &passed_);
    follow_size();
}

void CommandTerminal::set_size(unsigned short missing_rows) {
    winsize size = person_.size();
    if (size.ws_row == 0) return;
    if (size.ws_row > 1) size.ws_row = static_cast<unsigned short>(size.ws_row - missing_rows);
    ::ioctl(slave_.get(), TIOCSWINSZ, &size);
}

void CommandTerminal::follow_size() { set_size(0); }

void CommandTerminal::redraw() {
    set_size(1);
    set_size(0);
}

void CommandTerminal::follow_modes() {
    termios now{};
    if (::tcgetattr(slave_.get(), &now) != 0 || !agent::same_modes(now, passed_)) return;
    passed_ = person_.usual();
    ::tcsetattr(slave_.get(), TCSANOW, &passed_);
    ::tcgetattr(slave_.get(), &passed_);
}

}  // namespace callgate::approval
