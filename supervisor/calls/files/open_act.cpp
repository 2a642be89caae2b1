// Opens the judged object: by its pin, or by its name if only that keeps the flags, or creates it.
//
// An attacker may swap every name meanwhile, and the umask of the caller. An object is believed only by its
// pin, or by its inode if it had to be opened by name. A new one is made with O_EXCL. Opening may block
// (FIFOs, devices): that is announced, and interrupted as the caller would be.
#include <linux/capability.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>
#include <climits>

#include <algorithm>
#include <array>

#include "base/fs_user.hpp"
#include "base/process/spawn.hpp"
#include "base/test_switch.hpp"
#include "supervisor/calls/files/opening.hpp"
#include "supervisor/calls/files/settings_locks.hpp"
#include "supervisor/calls/files/shared_memory.hpp"
#include "supervisor/calls/foreign_memory.hpp"
#include "supervisor/decide/parties.hpp"

namespace callgate::calls {

namespace {

/// fs.protected_fifos or fs.protected_regular: 0, 1 or 2 (sysctl/fs.rst).
int sticky_protection(bool fifo) {
    const auto read = [](const char* path) {
        const UniqueFd fd(::open(path, O_RDONLY | O_CLOEXEC));
        char digit = '0';
        return fd && ::read(fd.get(), &digit, 1) == 1 ? digit - '0' : 0;
    };
    static const int fifos = read("/proc/sys/fs/protected_fifos");
    static const int regular = read("/proc/sys/fs/protected_regular");
    return fifo ? fifos : regular;
}

/// Whether a container's list of devices may lack this one. A runtime lets every container use the devices of
/// the OCI runtime specification ("Default Devices"), and its own terminals.
bool may_be_unlisted(const struct stat& object) {
    if (S_ISBLK(object.st_mode)) return true;
    if (!S_ISCHR(object.st_mode)) return false;
    constexpr unsigned memory = 1, terminals = 5, first_pts = 136, last_pts = 143;
    const unsigned kind = major(object.st_rdev), number = minor(object.st_rdev);
    if (kind >= first_pts && kind <= last_pts) return false;
    if (kind == terminals) return number != 0 && number != 2;  // tty, ptmx
    constexpr std::array<unsigned, 5> common{3, 5, 7, 8, 9};   // null, zero, full, random, urandom
    return kind != memory || std::ranges::find(common, number) == common.end();
}

/// A setting that each PID namespace has of its own, from Linux 6.14 on. Whoever opens it gets the one of its
/// own namespace, which is the agent's here.
bool is_set_by_pid_namespace(const Object& object) {
    return object.in_procfs && object.path.ends_with("/sys/kernel/pid_max");
}

/// Whether a tool names the agent's process: what is written there sets how the kernel treats it.
bool is_agents_of_tool(FileCall& context, const Object& object) {
    return context.needs.parties != nullptr && party_of(context) == rules::Party::tools &&
           context.needs.parties->is_agent(process_of_proc(object.path)) && check_enabled("party-files");
}

}  // namespace

/// fs/namei.c, may_create_in_sticky: O_CREAT on another user's file or FIFO in a shared sticky directory.
/// Reopening by the pin would lose this check.
bool Opening::sticky_refuses(const Object& object) const {
    const bool fifo = S_ISFIFO(object.status.st_mode);
    if (!wanted_.creates() || (!fifo && !S_ISREG(object.status.st_mode))) return false;
    const int level = sticky_protection(fifo);
    const uid_t own = fs_user();
    if (level == 0 || !check_enabled("protected-files") || object.status.st_uid == own) return false;
    const std::string parent = object.path.substr(0, std::max<std::size_t>(object.path.rfind('/'), 1));
    struct stat holder {};
    if (::lstat(parent.c_str(), &holder) != 0) return true;
    if ((holder.st_mode & S_ISVTX) == 0 || holder.st_uid == object.status.st_uid) return false;
    return (holder.st_mode & S_IWOTH) != 0 || (level >= 2 && (holder.st_mode & S_IWGRP) != 0);
}

Opening::Next Opening::act_on(const Object& object, std::uint64_t sequence) {
    const bool changes = wanted_.writes() || wanted_.truncates();
    if ((in_proc_of_callgate(object.path, context_.files.guardian) &&
         (changes || !is_shown_to_all(object.path))) ||
        ((changes || (!context_.needs.nested.empty() && !is_shown_to_all(object.path) &&
                      check_enabled("nested-proc"))) &&
         in_proc_of_outside_process(object.path, context_.files.guardian)) ||
        (changes && is_agents_of_tool(context_, object)) ||
        ((context_.files.keep_capabilities & capability(CAP_SYS_PTRACE)) == 0 &&
         is_memory_beyond(object.path, context_.thread())) ||
        sticky_refuses(object)) {
        finish_failed(sequence, EACCES);
        return Next::done;
    }
    // The kernel asks the list of who opens. callgate is in another control group, which may use every
    // device.
    if (context_.files.in_container && may_be_unlisted(object.status) && check_enabled("container-devices")) {
        finish_failed(sequence, EPERM);
        return Next::done;
    }
    if (context_.files.in_container && changes && is_set_by_pid_namespace(object) &&
        check_enabled("container-pid-max")) {
        finish_failed(sequence, EPERM);
        return Next::done;
    }
    if ((wanted_.truncates() || wanted_.temporary()) && kernel::descriptors_exhausted(context_.thread())) {
        finish_failed(sequence, EMFILE);
        return Next::done;
    }
    // The kernel lists there what the opener possesses, which would be callgate's keys. The run has none.
    if (!changes && object.path == "/proc/keys") return hand_over_text("", sequence), Next::done;
    if (!changes && context_.files.replacement) {
        if (const auto text = context_.files.replacement(object.status)) {
            hand_over_text(*text, sequence);
            return Next::done;
        }
    }
    // A descriptor keeps O_NOFOLLOW among its flags, and a reopen by the pin cannot have it.
    const bool waits = object.may_block() && (wanted_.flags & O_NONBLOCK) == 0;
    if ((wanted_.flags & O_NOFOLLOW) != 0 && !waits && !object.unlinked && object.path.size() < PATH_MAX)
        return reopen_by_name(object, sequence);
    reopen(object, sequence);
    return Next::done;
}

/// Hands over a memory file, of its own for each open. What a program does to it reaches nobody else.
void Opening::hand_over_text(const std::string& text, std::uint64_t sequence) {
    auto file = make_file(text);
    if (!file) return finish_failed(sequence, file.error().value());
    constexpr int reading = O_RDONLY | O_CLOEXEC;
    const kernel::PinPath own(file->get());
    UniqueFd read_only(::open(own.text, reading | (wanted_.flags & (O_NONBLOCK | O_NOATIME))));
    if (!read_only) return finish_failed(sequence, errno);
    finish(std::move(read_only), sequence);
}

/// Opens the last name without following, and believes it only if it is the judged object. Another object is
/// neither truncated nor waited for.
Opening::Next Opening::reopen_by_name(const Object& object, std::uint64_t sequence) {
    const std::size_t slash = object.path.rfind('/');
    const std::string head = object.path.substr(0, std::max<std::size_t>(slash, 1));
    const std::string leaf = slash + 1 < object.path.size() ? object.path.substr(slash + 1) : ".";
    // No link on the way: an object at the judged name has the judged name, even if it was put there since.
    const open_how way{O_PATH | O_DIRECTORY | O_CLOEXEC, 0, RESOLVE_NO_SYMLINKS};
    const UniqueFd parent(static_cast<int>(::syscall(SYS_openat2, AT_FDCWD, head.c_str(), &way, sizeof way)));
    // The parent was moved, or lies beneath a directory that the caller may not search. The pin needs no
    // name.
    if (!parent) return reopen(object, sequence), Next::done;
    constexpr int not_here = O_CREAT | O_EXCL | O_TRUNC;
    const int flags = (wanted_.flags & ~not_here) | O_NOCTTY | O_NONBLOCK | O_CLOEXEC;
    std::optional<WithUmask> with_umask;
    if (wanted_.temporary() && !take_umask(with_umask)) return finish_failed(sequence, ESRCH), Next::done;
    const auto judged = [&object](const struct stat& found) {
        return found.st_ino == object.status.st_ino && found.st_dev == object.status.st_dev;
    };
    struct stat found {};
    UniqueFd fd(::openat(parent.get(), leaf.c_str(), flags, wanted_.mode));
    if (!fd) {
        const int error = errno;
        // Another object stands there now, or none does: then the call may be about to create it.
        if (::fstatat(parent.get(), leaf.c_str(), &found, AT_SYMLINK_NOFOLLOW) != 0 || !judged(found)) {
            note_failed_act(context_, sequence, error);
            return Next::again;
        }
        finish_failed(sequence, error);
        return Next::done;
    }
    if (!wanted_.temporary() && check_enabled("same-object") &&
        (::fstat(fd.get(), &found) != 0 || !judged(found))) {
        return Next::again;
    }
    const bool truncates = wanted_.truncates() && S_ISREG(object.status.st_mode);  // as in do_open
    if (truncates && ::ftruncate(fd.get(), 0) != 0) {
        finish_failed(sequence, errno);
        return Next::done;
    }
    if ((wanted_.flags & O_NONBLOCK) == 0) ::fcntl(fd.get(), F_SETFL, flags & ~O_NONBLOCK);
    finish(std::move(fd), sequence);
    return Next::done;
}

/// Takes the caller's umask. Returns false if the caller is gone.
bool Opening::take_umask(std::optional<WithUmask>& with_umask) {
    const auto caller = kernel::status(context_.thread());
    if (caller) with_umask.emplace(context_.buffers, caller->umask);
    return caller.has_value();
}

UniqueFd Opening::open_terminal(int flags) {
    const auto caller = kernel::identity(context_.thread());
    const auto number = caller ? static_cast<dev_t>(static_cast<unsigned>(caller->controlling_terminal)) : 0;
    constexpr unsigned first_pts = 136;
    if (number == 0 || major(number) < first_pts || major(number) > first_pts + 7) {
        errno = ENXIO;
        return {};
    }
    const std::string path = "/dev/pts/" + std::to_string((major(number) - first_pts) * 256 + minor(number));
    UniqueFd terminal(::open(path.c_str(), flags | O_NOFOLLOW | O_NONBLOCK));
    // A container's root may hold anything under this name, which was not judged.
    struct stat found {};
    if (terminal &&
        (::fstat(terminal.get(), &found) != 0 || !S_ISCHR(found.st_mode) || found.st_rdev != number)) {
        errno = ENXIO;
        return {};
    }
    if (terminal && (flags & O_NONBLOCK) == 0) ::fcntl(terminal.get(), F_SETFL, flags & ~O_NONBLOCK);
    return terminal;
}

UniqueFd Opening::open_pinned(const Object& object, int flags, bool may_block, bool& overload) {
    const kernel::PinPath pin(object.pin.get());
    overload = false;
    if (!check_enabled("pinned-object")) {
        return UniqueFd(
            ::openat(given_.base ? given_.base.get() : AT_FDCWD, given_.text->c_str(), flags, wanted_.mode));
    }
    if (!may_block) return UniqueFd(::openat(kernel::own_descriptors(), pin.number(), flags, wanted_.mode));
    if (!context_.blocking.enter()) {
        overload = true;
        return {};
    }
    UniqueFd fd(::openat(kernel::own_descriptors(), pin.number(), flags, wanted_.mode));
    const int error = errno;
    context_.blocking.leave();
    errno = error;
    return fd;
}

void Opening::reopen(const Object& object, std::uint64_t sequence) {
    constexpr int not_here = O_CREAT | O_EXCL | O_NOFOLLOW;
    int flags = (wanted_.flags & ~not_here) | O_NOCTTY | O_CLOEXEC;
    std::optional<WithUmask> with_umask;
    if (wanted_.temporary()) {
        flags |= wanted_.flags & O_EXCL;  // the temporary file cannot be linked later
        if (!take_umask(with_umask)) return finish_failed(sequence, ESRCH);
    }
    if (S_ISCHR(object.status.st_mode) && object.status.st_rdev == makedev(5, 0)) {
        UniqueFd terminal = open_terminal(flags);
        return terminal ? finish(std::move(terminal), sequence) : finish_failed(sequence, errno);
    }
    bool overload = false;
    UniqueFd fd = open_pinned(object, flags, object.may_block() && (flags & O_NONBLOCK) == 0, overload);
    if (fd) return finish(std::move(fd), sequence);
    if (overload) {
        return deny_failure(context_, subject(wanted_.on_existing(), object.path, object.unlinked), EAGAIN,
                            "overload: too many calls are blocked");
    }
    if (errno == EINTR && context_.blocking.interruption() != Blocking::Interruption::none) {
        if (!context_.call.interrupt()) note_lost_answer(context_, sequence);
        return;
    }
    finish_failed(sequence, errno);
}

void Opening::finish(UniqueFd fd, std::uint64_t sequence) {
    int error = 0;
    const bool reached = context_.call.hand_over(std::move(fd), (wanted_.flags & O_CLOEXEC) != 0, error);
    if (error != 0) note_failed_act(context_, sequence, error);
    if (!reached) note_lost_answer(context_, sequence);
}

void Opening::finish_failed(std::uint64_t sequence, int error) {
    note_failed_act(context_, sequence, error);
    context_.fail(error);
}

Opening::Next Opening::create(const Place& place, int flags, std::uint64_t sequence) {
    if (kernel::descriptors_exhausted(context_.thread())) return finish_failed(sequence, EMFILE), Next::done;
    std::optional<WithUmask> with_umask;
    if (!take_umask(with_umask)) return finish_failed(sequence, ESRCH), Next::done;
    // With O_EXCL the kernel makes the object or refuses: it never opens an object that was not judged.
    flags = (flags & ~O_TRUNC) | O_CREAT | O_EXCL | O_NOCTTY | O_CLOEXEC;
    if (!check_enabled("exclusive-creation")) flags &= ~O_EXCL;
    UniqueFd fd;
    int error = 0;
    {
        SharedMemory::Making making = making_of(context_, place.path);
        if (making.error() != 0) return finish_failed(sequence, making.error()), Next::done;
        fd = UniqueFd(::openat(place.parent.get(), place.leaf.c_str(), flags, wanted_.mode));
        error = errno;
        if (fd) making.note(fd.get(), "");
    }
    if (fd && is_settings_lock(context_.needs.enforced.rules, place.path))
        context_.files.locks->note(place.path, fd.get());
    if (fd) {
        is_count_ ? hand_count(std::move(fd), sequence) : finish(std::move(fd), sequence);
        return Next::done;
    }
    if (error == EEXIST && !wanted_.exclusive()) {
        note_failed_act(context_, sequence, error);
        return Next::again;
    }
    finish_failed(sequence, error);
    return Next::done;
}

}  // namespace callgate::calls
