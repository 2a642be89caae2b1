#include "base/process/capabilities.hpp"
#include "base/result.hpp"

#include <linux/capability.h>
#include <linux/securebits.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdint>

namespace callgate {
namespace {

using Sets = std::array<__user_cap_data_struct, _LINUX_CAPABILITY_U32S_3>;

Sets held() {
    __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
    Sets sets{};
    if (::syscall(SYS_capget, &header, sets.data()) != 0) return {};
    return sets;
}

bool may_change_bounding_set() {
    return (held()[CAP_TO_INDEX(CAP_SETPCAP)].effective & CAP_TO_MASK(CAP_SETPCAP)) != 0;
}

constexpr std::size_t override_word = CAP_TO_INDEX(CAP_DAC_OVERRIDE);
constexpr std::uint32_t override_bit = CAP_TO_MASK(CAP_DAC_OVERRIDE);

bool hold(const Sets& sets) {
    __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
    return ::syscall(SYS_capset, &header, sets.data()) == 0;
}

Sets sets_of(CapabilitySet permitted, CapabilitySet effective, CapabilitySet inheritable) {
    Sets sets{};
    for (std::size_t word = 0; word < 2; ++word) {
        const auto part = [word](CapabilitySet set) {
            return static_cast<std::uint32_t>(set >> (32 * word));
        };
        sets[word] = {part(effective), part(permitted), part(inheritable)};
    }
    return sets;
}

CapabilitySet joined(std::uint32_t low, std::uint32_t high) {
    return CapabilitySet{low} | CapabilitySet{high} << 32;
}

Result<void> hold_only(const Sets& sets) {
    if (::prctl(PR_CAP_AMBIENT, static_cast<unsigned long>(PR_CAP_AMBIENT_CLEAR_ALL), 0UL, 0UL, 0UL) != 0)
        return errno_code();
    if (!hold(sets)) return errno_code();
    return {};
}

// The kernel itself tells which capability is the last, not /proc, which need not be mounted.
Result<void> limit_bounding_set(CapabilitySet kept) {
    for (unsigned long number = 0; number < 64; ++number) {
        if ((kept >> number & 1) != 0 || ::prctl(PR_CAPBSET_DROP, number, 0UL, 0UL, 0UL) == 0) continue;
        if (errno == EINVAL && number > 0) break;
        return errno_code();
    }
    return {};
}

// Keeps execve by uid 0 from gaining anything. Bits that are already locked otherwise stay: the bounding set
// is empty.
Result<void> lock_no_root() {
    const int bits = ::prctl(PR_GET_SECUREBITS, 0UL, 0UL, 0UL, 0UL);
    if (bits < 0) return errno_code();
    const unsigned long wanted = static_cast<unsigned long>(bits) | SECBIT_NOROOT | SECBIT_NOROOT_LOCKED;
    if ((bits & SECBIT_NOROOT_LOCKED) != 0 || wanted == static_cast<unsigned long>(bits)) return {};
    if (::prctl(PR_SET_SECUREBITS, wanted, 0UL, 0UL, 0UL) != 0) return errno_code();
    return {};
}

}  // namespace

Result<void> drop_capabilities() {
    if (may_change_bounding_set()) {
        if (auto emptied = limit_bounding_set(0); !emptied) return emptied;
        if (auto locked = lock_no_root(); !locked) return locked;
    }
    return drop_held_capabilities();
}

const CapabilitySet for_ending = capability(CAP_KILL);
const CapabilitySet for_removing =
    capability(CAP_DAC_OVERRIDE) | capability(CAP_FOWNER) | capability(CAP_SYS_ADMIN);

void use_permitted_capabilities() {
    const CapabilitySet permitted = permitted_capabilities();
    static_cast<void>(hold_capabilities(permitted, permitted));  // never refused: no capability is gained
}

CapabilitySet permitted_capabilities() {
    const Sets sets = held();
    return joined(sets[0].permitted, sets[1].permitted);
}

bool hold_capabilities(CapabilitySet permitted, CapabilitySet effective) {
    const Sets now = held();
    return hold(sets_of(permitted, effective, joined(now[0].inheritable, now[1].inheritable)));
}

Result<void> keep_capabilities(CapabilitySet kept) {
    if (may_change_bounding_set()) {
        if (auto limited = limit_bounding_set(kept); !limited) return limited;
    }
    // The kernel takes from the ambient set what is no longer inheritable.
    const Sets now = held();
    const CapabilitySet effective = joined(now[0].effective, now[1].effective) & kept;
    const CapabilitySet inheritable = joined(now[0].inheritable, now[1].inheritable) & kept;
    if (!hold(sets_of(permitted_capabilities() & kept, effective, inheritable))) return errno_code();
    return {};
}

Result<void> hold_only(CapabilitySet kept, CapabilitySet effective) {
    const CapabilitySet permitted = permitted_capabilities() & kept;
    return hold_only(sets_of(permitted, permitted & effective, 0));
}

Result<void> drop_held_capabilities() { return hold_only(Sets{}); }

Result<void> set_override_aside() {
    Sets sets{};
    sets[override_word].permitted = held()[override_word].permitted & override_bit;
    return hold_only(sets);
}

OverrideInUse::OverrideInUse() {
    Sets sets = held();
    if ((sets[override_word].permitted & ~sets[override_word].effective & override_bit) == 0) return;
    sets[override_word].effective |= override_bit;
    raised_ = hold(sets);
}

OverrideInUse::~OverrideInUse() {
    if (!raised_) return;
    Sets sets = held();
    sets[override_word].effective &= ~override_bit;
    static_cast<void>(hold(sets));  // never refused: no capability is gained
}

}  // namespace callgate
