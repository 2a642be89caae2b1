#include "supervisor/kernel/acting_identity.hpp"

#include <linux/capability.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <string_view>
#include <vector>

#include "base/test_switch.hpp"
#include "base/write_error.hpp"
#include "supervisor/kernel/target.hpp"

namespace callgate::kernel {

namespace {

constexpr CapabilitySet for_taking = capability(CAP_SETUID) | capability(CAP_SETGID);

/// The state of one thread, which begin_acting sets.
struct Acting {
    bool began = false;
    Credentials base;
    std::vector<gid_t> groups;
    CapabilitySet permitted = 0;
    CapabilitySet effective = 0;  // now, but for reading
    const Credentials* taken = nullptr;
};
thread_local Acting acting;

[[noreturn]] void fail_closed() {
    write_error("callgate: a thread cannot take back its own identity: the run is ended\n");
    ::_exit(125);
}

/// The text after "\nNAME:\t", up to the line's end; nothing if either is missing.
Result<std::string_view> line_of(std::string_view text, std::string_view name) {
    const std::size_t at = text.find(name);
    if (at == std::string_view::npos) return errno_code(EOVERFLOW);
    const std::size_t begin = at + name.size();
    const std::size_t end = text.find('\n', begin);
    if (end == std::string_view::npos) return errno_code(EOVERFLOW);
    return text.substr(begin, end - begin);
}

/// The numbers of a line.
std::vector<std::uint64_t> numbers(std::string_view line, int base = 10) {
    std::vector<std::uint64_t> found;
    for (std::size_t at = 0; (at = line.find_first_not_of(" \t", at)) != std::string_view::npos;) {
        const std::size_t end = std::min(line.find_first_of(" \t", at), line.size());
        std::uint64_t value = 0;
        if (std::from_chars(line.data() + at, line.data() + end, value, base).ec != std::errc{}) break;
        found.push_back(value);
        at = end;
    }
    return found;
}

bool set_groups(const std::vector<gid_t>& groups) {
    return ::syscall(SYS_setgroups, groups.size(), groups.data()) == 0;
}

/// Effective ids alone: the others stay. -1 stays, too.
bool set_effective_ids(const Credentials& from, const Credentials& to) {
    constexpr auto same = static_cast<id_t>(-1);
    if (from.effective_gid != to.effective_gid && ::syscall(SYS_setresgid, same, to.effective_gid, same) != 0)
        return false;
    ::syscall(SYS_setfsgid, to.fs_gid);
    if (from.effective_uid != to.effective_uid && ::syscall(SYS_setresuid, same, to.effective_uid, same) != 0)
        return false;
    // That was the end of the effective capabilities if it left user 0. Another fsuid needs them.
    if (!hold_capabilities(acting.permitted, acting.permitted)) return false;
    ::syscall(SYS_setfsuid, to.fs_uid);
    return true;
}

bool take(const Credentials& wanted) {
    const Credentials& base = acting.base;
    // The thread uses what it has set aside for the change alone.
    if (!hold_capabilities(acting.permitted, acting.permitted)) return false;
    if (wanted.groups != base.groups) {
        std::vector<gid_t> groups;
        for (const std::uint64_t group : numbers(wanted.groups)) groups.push_back(static_cast<gid_t>(group));
        if (!set_groups(groups)) return false;
    }
    if (!set_effective_ids(base, wanted)) return false;
    // The kernel refuses this one if the caller has a capability that callgate has not.
    if (!hold_capabilities(acting.permitted, wanted.capabilities)) return false;
    const auto now = credentials(static_cast<pid_t>(::syscall(SYS_gettid)));
    return now && *now == wanted;
}

void take_back(const Credentials& from) {
    const Credentials& base = acting.base;
    if (!hold_capabilities(acting.permitted, acting.permitted) || !set_effective_ids(from, base) ||
        (from.groups != base.groups && !set_groups(acting.groups)) ||
        !hold_capabilities(acting.permitted, base.capabilities))
        fail_closed();
    acting.effective = base.capabilities;
}

}  // namespace

// Containers have CAP_DAC_OVERRIDE by default, and not CAP_DAC_READ_SEARCH.
const CapabilitySet for_reading = capability(CAP_SYS_PTRACE) | capability(CAP_DAC_READ_SEARCH) |
                                  capability(CAP_DAC_OVERRIDE) | capability(CAP_SYS_RESOURCE) |
                                  capability(CAP_KILL);
const CapabilitySet for_acting = for_taking | for_reading;

Result<Credentials> credentials(pid_t thread) {
    const auto text = status_text(thread);
    if (!text) return text.error();
    const auto users = line_of(*text, "\nUid:"), groups = line_of(*text, "\nGid:");
    const auto more = line_of(*text, "\nGroups:"), capable = line_of(*text, "\nCapEff:");
    for (const auto* const line : {&users, &groups, &more, &capable})
        if (!*line) return line->error();
    const auto uids = numbers(*users), gids = numbers(*groups), bits = numbers(*capable, 16);
    if (uids.size() != 4 || gids.size() != 4 || bits.size() != 1) return errno_code(EOVERFLOW);
    Credentials found;
    found.effective_uid = static_cast<uid_t>(uids[1]);
    found.fs_uid = static_cast<uid_t>(uids[3]);
    found.effective_gid = static_cast<gid_t>(gids[1]);
    found.fs_gid = static_cast<gid_t>(gids[3]);
    found.groups = *more;
    found.capabilities = bits[0];
    return found;
}

Result<void> begin_acting(const Credentials& base) {
    const auto inherited = credentials(static_cast<pid_t>(::syscall(SYS_gettid)));
    if (!inherited) return inherited.error();
    acting = Acting{};
    acting.began = true;
    acting.base = base;
    for (const std::uint64_t group : numbers(base.groups)) acting.groups.push_back(static_cast<gid_t>(group));
    acting.permitted = permitted_capabilities() & (base.capabilities | for_acting);
    // Else a thread of an ordinary user would lose them when it goes back from user 0. Refused where a caller
    // has locked it: then its run ends.
    ::prctl(PR_SET_KEEPCAPS, 1UL, 0UL, 0UL, 0UL);
    take_back(*inherited);
    return {};
}

Result<Credentials> own_identity(CapabilitySet kept) {
    auto own = credentials(static_cast<pid_t>(::syscall(SYS_gettid)));
    if (own) own->capabilities &= kept;
    return own;
}

Result<void> begin_acting_with(CapabilitySet kept) {
    const auto own = own_identity(kept);
    return own ? begin_acting(*own) : own.error();
}

const Credentials* taken_identity() { return acting.taken; }

const Credentials* identity_in_use() {
    if (acting.taken != nullptr) return acting.taken;
    return acting.began ? &acting.base : nullptr;
}

TakenIdentity::TakenIdentity(const Credentials& wanted) : wanted_(wanted) {
    const int before = errno;
    taken_ = acting.began && take(wanted_);
    errno = before;
    if (!taken_) {
        const auto now = credentials(static_cast<pid_t>(::syscall(SYS_gettid)));
        if (!now) fail_closed();
        take_back(*now);
        return;
    }
    acting.effective = wanted_.capabilities;
    acting.taken = &wanted_;
}

TakenIdentity::~TakenIdentity() {
    if (!taken_) return;
    acting.taken = nullptr;
    take_back(wanted_);
}

ReadingCaller::ReadingCaller() {
    const CapabilitySet more = acting.permitted & for_reading & ~acting.effective;
    if (more == 0) return;
    const CapabilitySet now = acting.effective | more;
    raised_ = hold_capabilities(acting.permitted, now);
    if (raised_) acting.effective = now;
}

ReadingCaller::~ReadingCaller() {
    if (!raised_ || !check_enabled("reading-rights")) return;
    const int before = errno;
    acting.effective = acting.taken != nullptr ? acting.taken->capabilities : acting.base.capabilities;
    if (!hold_capabilities(acting.permitted, acting.effective)) fail_closed();
    errno = before;
}

/// setresuid(2) also sets the fsuid, from the effective one.
bool SendingAsCaller::set(uid_t user, gid_t group) {
    constexpr auto same = static_cast<id_t>(-1);
    const Credentials& now = *identity_in_use();
    const CapabilitySet effective = (now.capabilities | for_taking) & acting.permitted;
    if (!hold_capabilities(acting.permitted, effective) || ::syscall(SYS_setresgid, group, same, same) != 0 ||
        ::syscall(SYS_setresuid, user, same, same) != 0)
        return false;
    ::syscall(SYS_setfsgid, now.fs_gid);
    ::syscall(SYS_setfsuid, now.fs_uid);
    return hold_capabilities(acting.permitted, effective);
}

SendingAsCaller::SendingAsCaller(pid_t thread) {
    if (!acting.began || !check_enabled("identity-real")) return;
    const auto caller = status(thread);
    own_user_ = ::getuid();
    own_group_ = ::getgid();
    if (caller && caller->real_uid == own_user_ && caller->real_gid == own_group_) return;
    changed_ = true;
    ready_ = caller && set(caller->real_uid, caller->real_gid);
}

SendingAsCaller::~SendingAsCaller() {
    if (!changed_) return;
    const int before = errno;
    if (!set(own_user_, own_group_) || !hold_capabilities(acting.permitted, identity_in_use()->capabilities))
        fail_closed();
    errno = before;
}

bool reads_less_than_it_may() { return (acting.permitted & for_reading & ~acting.effective) != 0; }

bool may_read(pid_t caller) {
    if ((acting.permitted & capability(CAP_SYS_PTRACE)) != 0) return true;
    char target = 0;
    return ::readlink(ProcPath(caller, "exe").text, &target, 1) >= 0 || errno == ENOENT;
}

bool may_signal(pid_t caller, pid_t process) {
    const Credentials* const as = taken_identity();
    if (as == nullptr || (as->capabilities & capability(CAP_KILL)) != 0 || !check_enabled("identity-signals"))
        return true;
    const auto from = status(caller), to = status(process);
    return from && to &&
           (from->effective_uid == to->real_uid || from->effective_uid == to->saved_uid ||
            from->real_uid == to->real_uid || from->real_uid == to->saved_uid);
}

}  // namespace callgate::kernel
