#include "agent/person_modes.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <iterator>
#include <utility>

#include "base/test_switch.hpp"

namespace callgate::agent {

bool same_modes(const termios& one, const termios& other) {
    return one.c_iflag == other.c_iflag && one.c_oflag == other.c_oflag && one.c_lflag == other.c_lflag &&
           std::equal(std::begin(one.c_cc), std::end(one.c_cc), std::begin(other.c_cc));
}

void PersonModes::take(const termios& usual_modes, const termios& raw_modes) {
    usual = usual_modes;
    raw = raw_modes;
    taken.store(true);
}

boost::system::result<SharedModes> SharedModes::make() {
    void* const memory =
        ::mmap(nullptr, sizeof(PersonModes), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) return boost::system::error_code(errno, boost::system::system_category());
    return SharedModes(static_cast<PersonModes*>(memory));  // zeroed memory means not taken
}

SharedModes::SharedModes(SharedModes&& other) noexcept : modes_(std::exchange(other.modes_, nullptr)) {}

SharedModes::~SharedModes() {
    if (modes_ != nullptr) ::munmap(modes_, sizeof(PersonModes));
}

void put_back(int terminal, const PersonModes& modes) {
    termios now{};
    if (!modes.taken.load() || ::tcgetattr(terminal, &now) != 0) return;
    if (same_modes(now, modes.raw) || !check_enabled("modes-of-others"))
        ::tcsetattr(terminal, TCSANOW, &modes.usual);
}

}  // namespace callgate::agent
