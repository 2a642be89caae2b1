#include "supervisor/approval/terminal/person_terminal.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <optional>
#include <stdexcept>

namespace callgate::approval {

namespace {

/// The device that /dev/tty stands for; fstat does not say it.
std::optional<unsigned> device_of(int fd) {
    unsigned device = 0;
    if (::ioctl(fd, TIOCGDEV, &device) != 0) return std::nullopt;
    return device;
}

bool is_pipe(int fd) {
    struct stat status {};
    return ::fstat(fd, &status) == 0 && (S_ISFIFO(status.st_mode) || S_ISSOCK(status.st_mode));
}

}  // namespace

PersonTerminal::PersonTerminal()
    : fd_(::open("/dev/tty", O_RDWR | O_NOCTTY | O_CLOEXEC)), in_pipe_(is_pipe(0) || is_pipe(1)) {
    if (!fd_)
        throw std::runtime_error(std::string("there is no terminal to ask on: ") + std::strerror(errno));
    if (::tcgetattr(fd_.get(), &usual_) != 0) throw std::runtime_error("/dev/tty is no terminal");
}

std::optional<PersonTerminal> PersonTerminal::find() {
    const UniqueFd there(::open("/dev/tty", O_RDWR | O_NOCTTY | O_CLOEXEC));
    if (!there) return std::nullopt;
    try {
        PersonTerminal person;
        static_cast<void>(person.name());
        return person;
    } catch (const std::runtime_error&) {
        return std::nullopt;
    }
}

std::string PersonTerminal::name() const {
    constexpr unsigned first_pts = 136;
    if (const auto device = device_of(fd_.get())) {
        const unsigned kind = major(*device), at = minor(*device);
        if (kind >= first_pts && kind < first_pts + 8)
            return "/dev/pts/" + std::to_string((kind - first_pts) * 256 + at);
    }
    std::array<char, 64> name{};
    for (int fd = 0; fd <= 2; ++fd)
        if (is(fd) && ::ttyname_r(fd, name.data(), name.size()) == 0) return name.data();
    throw std::runtime_error("the terminal to ask on has no name");
}

bool PersonTerminal::is(int fd) const {
    const auto device = device_of(fd);
    return device && device == device_of(fd_.get());
}

bool PersonTerminal::foreground() const { return ::tcgetpgrp(fd_.get()) == ::getpgrp(); }

winsize PersonTerminal::size() const {
    winsize size{};
    if (::ioctl(fd_.get(), TIOCGWINSZ, &size) != 0) return {};
    return size;
}

void PersonTerminal::take() {
    if (!taken_ && ::tcgetattr(fd_.get(), &usual_) != 0) return;
    taken_ = true;
    termios mode = usual_;
    ::cfmakeraw(&mode);
    if (in_pipe_) mode.c_oflag = usual_.c_oflag;
    if (shared_ != nullptr) shared_->take(usual_, mode);
    ::tcsetattr(fd_.get(), TCSADRAIN, &mode);
}

void PersonTerminal::give_back() {
    if (!taken_) return;
    taken_ = false;
    ::tcsetattr(fd_.get(), TCSADRAIN, &usual_);
    if (shared_ != nullptr) shared_->give_back();
}

}  // namespace callgate::approval
