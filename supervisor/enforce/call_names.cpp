#include "supervisor/enforce/call_names.hpp"

#include <sys/syscall.h>

#include <algorithm>

namespace callgate::enforce {

namespace {

constexpr NumberRange unassigned_x86_64[] = {{337, 423}};
constexpr NumberRange unassigned_aarch64[] = {{244, 259}, {295, 423}};

// The table belongs to this architecture and is sorted as the search expects.
static_assert(call_number("openat") == SYS_openat && call_number("execve") == SYS_execve &&
              call_number("accept") == SYS_accept && call_number("writev") == SYS_writev &&
              call_number("openat2") == SYS_openat2 && call_number("fchmodat2") == 452 &&
              call_number("") == no_number && call_number("zzz") == no_number);

}  // namespace

std::string call_name(std::uint32_t number, Architecture on) {
    const KnownCalls known = KnownCalls::of(on);
    const auto found = std::ranges::find(known.calls, number, &KnownCall::number);
    return found == known.calls.end() ? "" : std::string(known.name(*found));
}

std::span<const NumberRange> unassigned_numbers(Architecture on) {
    if (on == Architecture::x86_64) return unassigned_x86_64;
    return unassigned_aarch64;
}

}  // namespace callgate::enforce
