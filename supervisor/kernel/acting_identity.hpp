// The identity under which a thread acts: that of the caller, where the caller has changed its own.
//
// A run with `--keep-capabilities` may call setuid, setgid, setgroups and capset. An act on behalf of such a
// caller is then made with the caller's effective ids, fsuid, fsgid, groups and effective capabilities. The
// thread takes them by raw system calls, because the C library would change all threads. It then reads its
// own status, and acts only if that equals the caller's. When the call is over, it takes its own back.
//
// Real and saved ids and the permitted capabilities stay callgate's. So the caller can neither signal nor
// trace the thread, nor set its limits. The kernel counts for callgate's user what it counts for a real one
// (RLIMIT_NPROC, watches, queued messages). It would also allow some things for a real or saved id: they are
// checked here instead (`may_signal`, and SCM_CREDENTIALS in calls/network/message.cpp). The kernel makes the
// whole process undumpable at the first such change, which closes its /proc directory.
//
// An attacker controls the caller's ids, and those of all its threads. They belong to the thread, and no
// other thread can change them. They are read while the thread waits: its notification is asked for
// afterwards. A thread that a signal interrupts may change them, and its call is then over and comes anew. A
// number that was given anew has no such notification. A caller in another user namespace is refused like
// every caller whose paths mean something else (caller_cache.hpp).
//
// Reading such a caller needs CAP_SYS_PTRACE, which the acting thread must not use. Ending it, or sending the
// signal that the kernel would have sent, needs CAP_KILL. A `ReadingCaller` raises them, for this alone. What
// is read has a number or an address, and never a path that the caller gave. The exception is a name in the
// caller's own /proc directory, which the kernel shows to its process.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>

#include "base/process/capabilities.hpp"
#include "base/result.hpp"

namespace callgate::kernel {

/// The kernel judges an act by these.
struct Credentials {
    uid_t effective_uid = 0, fs_uid = 0;
    gid_t effective_gid = 0, fs_gid = 0;
    std::string groups;  // supplementary, as /proc/TID/status lists them
    CapabilitySet capabilities = 0;

    bool operator==(const Credentials&) const = default;
};
/// From /proc/TID/status.
[[nodiscard]] Result<Credentials> credentials(pid_t thread);

/// They read any process of the run, and end it. A thread that acts keeps them aside, with those that take
/// identities.
extern const CapabilitySet for_reading, for_acting;

/// Makes `base` the identity of the calling thread, whatever it inherited, and keeps aside what taking
/// another one and reading callers need. For a thread of a run that keeps capabilities, at its start.
[[nodiscard]] Result<void> begin_acting(const Credentials& base);

/// The calling thread's identity, with what it has of the capabilities `kept`.
[[nodiscard]] Result<Credentials> own_identity(CapabilitySet kept);
/// begin_acting with that.
[[nodiscard]] Result<void> begin_acting_with(CapabilitySet kept);

/// The identity that the calling thread has taken; null: its own.
[[nodiscard]] const Credentials* taken_identity();
/// The same, or its own identity; null: it did not begin by `begin_acting`.
[[nodiscard]] const Credentials* identity_in_use();

/// While it lives, the calling thread acts as `wanted`. Ends the process if the thread's own identity cannot
/// be taken back. Needs `begin_acting`.
class TakenIdentity {
public:
    explicit TakenIdentity(const Credentials& wanted);
    TakenIdentity(const TakenIdentity&) = delete;
    TakenIdentity& operator=(const TakenIdentity&) = delete;
    ~TakenIdentity();
    /// False: the kernel refused it, and the thread has its own identity.
    [[nodiscard]] bool taken() const { return taken_; }

private:
    const Credentials wanted_;
    bool taken_ = false;
};

/// While it lives, the calling thread may read any process of the run, and end it. It changes nothing for a
/// thread that may do so anyway, or that did not begin by `begin_acting`.
class ReadingCaller {
public:
    ReadingCaller();
    ReadingCaller(const ReadingCaller&) = delete;
    ReadingCaller& operator=(const ReadingCaller&) = delete;
    ~ReadingCaller();

private:
    bool raised_ = false;
};

/// While it lives, the calling thread has the real ids of `thread`, too: the kernel shows them to the
/// receiver of a message. It may then name any ids in SCM_CREDENTIALS, and those that are named were checked
/// before. Meanwhile a process of that user may signal the thread, which the filter refuses to the run's
/// processes. It changes nothing for a thread that did not begin by `begin_acting`.
class SendingAsCaller {
public:
    explicit SendingAsCaller(pid_t thread);
    SendingAsCaller(const SendingAsCaller&) = delete;
    SendingAsCaller& operator=(const SendingAsCaller&) = delete;
    ~SendingAsCaller();
    /// False: the kernel refused the ids, so nothing may be sent.
    [[nodiscard]] bool ready() const { return ready_; }

private:
    bool set(uid_t user, gid_t group);

    uid_t own_user_ = 0;
    gid_t own_group_ = 0;
    bool ready_ = true, changed_ = false;
};

/// Whether a ReadingCaller would let the calling thread read more than it may now.
[[nodiscard]] bool reads_less_than_it_may();

/// Whether the calling thread may read `caller`, which has changed its identity. The kernel makes such a
/// process undumpable until it executes something; then only CAP_SYS_PTRACE reads it.
[[nodiscard]] bool may_read(pid_t caller);

/// Whether `caller` itself may send `process` a signal (kernel/signal.c, kill_ok_by_cred).
[[nodiscard]] bool may_signal(pid_t caller, pid_t process);

}  // namespace callgate::kernel
