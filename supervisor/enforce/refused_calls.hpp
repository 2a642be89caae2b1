// Kinds of calls that the filter refuses by scalar arguments: their names in the log and the footer, and what
// follows for the program.
//
// A filter alone answers a refused call silently. So each refusal with a `RefusedKind` is notified instead,
// and the supervisor gives the errno that the filter would have given. These calls are rare. Refusals without
// a kind stay in the kernel: after them every program falls back (clone3, MSG_FASTOPEN).
//
// An attacker controls number and arguments. Both are scalars that no thread can change after the filter has
// read them. The answer is always an errno, so nothing is ever permitted here. Pure; any thread.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "supervisor/enforce/seccomp/compiler.hpp"

namespace callgate::enforce {

/// A kind of refused calls, as the log and the footer show it.
struct RefusedKind {
    std::string_view name;         // plural: "UDP sockets"
    std::string_view consequence;  // what follows from it, for people
    /// Common libraries probe for it and go on without it. The footer shows it only if the command failed.
    bool probed = false;
};

namespace refused {

inline constexpr RefusedKind udp{
    "UDP sockets", R"(name look-ups by UDP and HTTP/3 fail; a rule with "protocol": "udp" opens them)"};
inline constexpr RefusedKind udp_look_ups{
    "UDP look-ups",
    "a program that makes its own DNS queries by UDP finds only names that rules allow literally", true};
inline constexpr RefusedKind unix_datagram{
    "unix datagram sockets", "-p dgram opens those of the run; a message to syslog is lost", true};
inline constexpr RefusedKind raw{"raw and ICMP sockets", "ping and packet capture do not work in a run"};
inline constexpr RefusedKind mptcp{"MPTCP sockets", "programs that cannot use TCP instead fail", true};
inline constexpr RefusedKind protocols{"sockets of other protocols",
                                       "TCP and UDP are the only internet protocols in a run"};
inline constexpr RefusedKind netlink{
    "netlink sockets", "only routing can be asked about; devices and connections are not seen", true};
inline constexpr RefusedKind families{"sockets of other families",
                                      "only internet, unix and routing sockets exist in a run"};
inline constexpr RefusedKind kernel_crypto{"sockets of the kernel's cryptography",
                                           "programs that cannot compute by themselves instead fail", true};
inline constexpr RefusedKind namespaces{"new namespaces",
                                        "containers, bubblewrap and the sandboxes of browsers do not start "
                                        "in a run; a browser starts with --no-sandbox"};
inline constexpr RefusedKind mounts{"mounts", "nothing can be mounted in a run, and no root be changed"};
inline constexpr RefusedKind io_uring{"io_uring", "programs that cannot use other calls instead fail", true};
inline constexpr RefusedKind handles{"files opened by handle", "a run opens files by name only"};
inline constexpr RefusedKind fanotify{"fanotify", "programs that cannot use inotify instead fail", true};
inline constexpr RefusedKind userfaultfd{"userfaultfd", "programs that page memory by themselves fail", true};
inline constexpr RefusedKind bpf{"bpf", "nothing can be loaded into the kernel"};
inline constexpr RefusedKind perf{"performance counters", "profilers that read them fail"};
inline constexpr RefusedKind keyrings{"kernel keyrings",
                                      "programs that keep secrets in them, such as Kerberos, fail", true};
inline constexpr RefusedKind secret_memory{"secret memory", "programs that cannot use other memory fail",
                                           true};
inline constexpr RefusedKind administration{"administration of the host",
                                            "clock, modules, swap and names of the host stay as they are"};
inline constexpr RefusedKind listeners{
    "seccomp listeners", "a supervisor of system calls does not work in a run, except callgate"};
inline constexpr RefusedKind shown_program{
    "changes of what /proc shows", "a process shows the program and arguments that it was started with",
    true};
inline constexpr RefusedKind personalities{"personalities", "memory protections stay on"};
inline constexpr RefusedKind terminal_input{"input typed into the terminal",
                                            "a run cannot type for the person at the terminal"};
inline constexpr RefusedKind console{"requests of the Linux console",
                                     "its selection and the state of its keys are not seen", true};
inline constexpr RefusedKind directory_keys{"keys of encrypted directories",
                                            "a run can neither unlock nor lock encrypted directories"};
inline constexpr RefusedKind subvolumes{"subvolumes",
                                        "a run can neither make nor remove subvolumes and snapshots"};
inline constexpr RefusedKind attributes{"file attributes",
                                        "attributes that are set through a descriptor stay as they are"};
inline constexpr RefusedKind routes{"routing options of sockets",
                                    "packets go to the address that was decided"};
inline constexpr RefusedKind interfaces{
    "network administration", "interfaces, routes, firewalls and encryption of the network stay as they are"};
inline constexpr RefusedKind signal_owners{"owners of a file's signals",
                                           "programs that cannot poll instead fail"};
inline constexpr RefusedKind leases{"file leases", "servers that share files by them go without", true};
inline constexpr RefusedKind lock_limits{"limits of file locks",
                                         "they stay as they are; the kernel enforces nothing by them", true};
inline constexpr RefusedKind tracing{"tracing of processes",
                                     "debuggers do not work where the rules tell an agent from its tools"};

}  // namespace refused

/// The same filter, in which every refusal that has a kind is notified. The order of rules stays, so exactly
/// the calls that were refused with a kind are notified now.
[[nodiscard]] FilterSpec with_refusals_notified(const FilterSpec& spec);

/// Finds the refusal of a notified call, in the filter that was compiled. Immutable.
class RefusedCalls {
public:
    struct Refused {
        const RefusedKind* kind = nullptr;
        int error = 0;
    };

    /// Holds no refusal: every notified call goes to its handler.
    RefusedCalls() = default;
    /// `spec` is the one before `with_refusals_notified`.
    explicit RefusedCalls(const FilterSpec& spec);

    /// The refusal of this call: the first rule that holds decides, as in the kernel. `kind` is null if the
    /// filter does not refuse it, or refuses it without a kind.
    [[nodiscard]] Refused find(std::uint32_t call, const std::array<std::uint64_t, 6>& arguments) const;

private:
    std::vector<FilterRule> rules_;        // of calls with such refusals, by call
    std::vector<std::uint16_t> first_of_;  // by number: index in `rules_` plus one; 0: none
};

}  // namespace callgate::enforce
