#include "supervisor/enforce/filter_spec.hpp"

#include <fcntl.h>
#include <linux/netlink.h>
#include <netinet/in.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <optional>
#include <span>

#include "base/test_switch.hpp"
#include "supervisor/enforce/argument_tests.hpp"
#include "supervisor/enforce/call_classes.hpp"
#include "supervisor/enforce/call_table.hpp"

namespace callgate::enforce {

namespace {

using rules::Operation;
using rules::OperationSet;
using rules::Plan;

constexpr std::uint64_t socket_type_mask = 0xf;
constexpr std::uint64_t mptcp_protocol = 262;  // IPPROTO_MPTCP, missing from older headers

constexpr Disposition allow{Disposition::Kind::allow, 0};
constexpr Disposition notify{Disposition::Kind::notify, 0};
constexpr Disposition refuse(int error) { return {Disposition::Kind::refuse, error}; }

enum class Held : std::uint8_t { run, nested_run, container };

class Builder {
public:
    explicit Builder(const Plan& plan, Held held = Held::run)
        : plan_(plan), nested_(held == Held::nested_run), container_(held == Held::container) {}

    FilterSpec build() {
        spec_.architecture = audit_architecture;
        spec_.newest_call = newest_call;
        // Refusals come first, so that they are never notified.
        for (const Refusal& refusal : refusals())
            if (!nested_ || refusal.when != When::always) refused(refusal);
        if (nested_) return sockets(), std::move(spec_);
        if (container_ && check_enabled("container-descriptors"))
            add(call_number("pidfd_getfd"), {}, refuse(EPERM));
        for (const CallEntry& entry : call_table()) {
            const bool by_namespace = container_ && entry.scope != Scope::object;
            if (entry.number != no_number && !by_namespace) mediated(entry);
        }
        terminal_peers();
        sockets();
        for (const ClosedNumber& call : closed_numbers())
            add(call.number, {}, refuse(call.error), call.refused);
        for (const NumberRange& range : unassigned_numbers()) {
            spec_.rules.push_back({range.first, {}, refuse(ENOSYS), range.last, nullptr});
        }
        return std::move(spec_);
    }

private:
    void add(std::uint32_t call, std::vector<ArgumentTest> tests, Disposition then,
             const RefusedKind* refused = nullptr) {
        if constexpr (test_switches) {
            if (then.kind == Disposition::Kind::refuse && !check_enabled(call_name(call))) return;
        }
        if (nested_ && then.kind == Disposition::Kind::notify) then = allow;
        spec_.rules.push_back({call, std::move(tests), then, 0, refused});
    }

    void refused(const Refusal& refusal) {
        if (refusal.number == no_number || !refusal.applies(plan_) || !check_enabled(refusal.what)) return;
        add(refusal.number, {refusal.tests.begin(), refusal.tests.begin() + refusal.test_count},
            refuse(refusal.error), refusal.refused);
    }

    void mediated(const CallEntry& entry) {
        if (entry.open != OpenFlags::none) return open(entry);
        if (notified(entry)) return add_notified(entry);
        if (sets_ids(entry)) add(entry.number, {set_ids(entry)}, notify);
    }

    /// Whether the run must not use bits of this call's mode. A directory keeps them
    /// (calls/files/set_ids.hpp).
    [[nodiscard]] bool sets_ids(const CallEntry& entry) const {
        return plan_.set_ids_left_out && entry.mode >= 0 && !entry.name.starts_with("mkdir");
    }
    static ArgumentTest set_ids(const CallEntry& entry) {
        return has(static_cast<std::uint8_t>(entry.mode), S_ISUID | S_ISGID);
    }

    [[nodiscard]] bool notified(const CallEntry& entry) const {
        const bool contested = entry.operations.intersects(plan_.notified);
        switch (entry.when) {
            case NotifyWhen::contested:
                return contested;
            case NotifyWhen::contested_truncation:
                return contested || !plan_.truncation_held;
            case NotifyWhen::contested_datagrams:
                return contested && (plan_.udp || plan_.unix_datagram) && !plan_.sends_held;
            case NotifyWhen::contested_messages:
                return contested && (plan_.udp || plan_.unix_datagram) && !plan_.sends_held &&
                       (plan_.udp || !plan_.messages_held);
            case NotifyWhen::signals_not_held:
                return !plan_.signals_held || plan_.parties;
            case NotifyWhen::run_servers:
                return plan_.run_servers;
            case NotifyWhen::always:
                return true;
            case NotifyWhen::by_socket_kind:
                return false;
        }
        return true;
    }

    void add_notified(const CallEntry& entry) {
        const NotifyArguments& arguments = entry.arguments;
        const bool only = arguments.mode == NotifyArguments::Mode::only;
        for (const auto& alternative : std::span(arguments.alternatives).first(arguments.count)) {
            add(entry.number, {alternative.tests.begin(), alternative.tests.begin() + alternative.count},
                only ? notify : allow);
        }
        if (!only) add(entry.number, {}, notify);
    }

    /// O_PATH gives no access (Landlock does not mediate it either). Read-only opens and other opens are
    /// notified separately, each if one of its operations is contested.
    void open(const CallEntry& entry) {
        const bool reads = plan_.notified.contains(Operation::read);
        const bool writes = plan_.notified.intersects({Operation::modify, Operation::create});
        if (!reads && !writes && !plan_.set_ids_left_out) return;
        if (entry.open == OpenFlags::write_only && !reads && !writes)
            return add(entry.number, {set_ids(entry)}, notify);
        if (entry.open != OpenFlags::argument) return add(entry.number, {}, notify);
        const auto flags = static_cast<std::uint8_t>(entry.flags);
        constexpr std::uint64_t temporary = O_TMPFILE & ~O_DIRECTORY;
        constexpr std::uint64_t writing = O_ACCMODE | O_CREAT | O_TRUNC | O_TMPFILE;
        add(entry.number, {has(flags, O_PATH)}, allow);
        if (sets_ids(entry)) add(entry.number, {has(flags, O_CREAT | temporary), set_ids(entry)}, notify);
        if (!reads && !writes) return;
        if (!reads) {
            add(entry.number, {has(flags, writing & ~static_cast<std::uint64_t>(O_DIRECTORY))}, notify);
        } else {
            // If writes are not contested, only write-only opens are left out: an O_RDWR open reads too.
            if (!writes) add(entry.number, {equals(flags, O_WRONLY, O_ACCMODE)}, allow);
            add(entry.number, {}, notify);
        }
    }

    /// TIOCGPTPEER opens a terminal by its master. O_PATH gives no access, as in `open`.
    void terminal_peers() {
        if (!plan_.notified.intersects({Operation::read, Operation::modify})) return;
        constexpr std::uint32_t ioctl = call_number("ioctl");
        add(ioctl, {equals(1, TIOCGPTPEER), has(2, O_PATH)}, allow);
        add(ioctl, {equals(1, TIOCGPTPEER)}, notify);
    }

    /// An allow-list of families, types and protocols.
    void sockets() {
        const Disposition made = made_by();
        internet(AF_INET, made);
        internet(AF_INET6, made);
        if (plan_.unix_closed) add(socket_call, {equals(0, AF_UNIX)}, refuse(EACCES));
        for (const std::uint32_t call : {socket_call, socketpair_call}) {
            const Disposition then = call == socket_call ? made : allow;
            add(call, {equals(0, AF_UNIX), equals(1, SOCK_STREAM, socket_type_mask)}, then);
            add(call, {equals(0, AF_UNIX), equals(1, SOCK_SEQPACKET, socket_type_mask)}, then);
            if (plan_.unix_datagram) {
                add(call, {equals(0, AF_UNIX), equals(1, SOCK_DGRAM, socket_type_mask)}, then);
            }
            if (call == socketpair_call) {
                // Such sockets send to each other alone (calls/network/socket.cpp).
                add(call, {equals(0, AF_UNIX), equals(1, SOCK_DGRAM, socket_type_mask)}, notify);
            }
            add(call, {equals(0, AF_UNIX)}, refuse(EPROTONOSUPPORT), &refused::unix_datagram);
        }
        add(socket_call, {equals(0, AF_NETLINK), equals(2, NETLINK_ROUTE)}, made);
        add(socket_call, {equals(0, AF_NETLINK)}, refuse(EPROTONOSUPPORT), &refused::netlink);
        add(socket_call, {equals(0, AF_ALG)}, refuse(EAFNOSUPPORT), &refused::kernel_crypto);
        add(socket_call, {}, refuse(EAFNOSUPPORT), &refused::families);
        // No kernel makes such a pair: nothing is lost.
        add(socketpair_call, {equals(0, AF_INET)}, refuse(EOPNOTSUPP));
        add(socketpair_call, {equals(0, AF_INET6)}, refuse(EOPNOTSUPP));
        add(socketpair_call, {}, refuse(EAFNOSUPPORT), &refused::families);
    }

    /// The kernel makes a socket that may be, or callgate where it must keep a copy.
    [[nodiscard]] Disposition made_by() const { return plan_.sockets_on_behalf ? notify : allow; }

    void internet(int family, Disposition made) {
        const ArgumentTest of_family = equals(0, static_cast<std::uint64_t>(family));
        const auto open = [&](std::uint64_t type, std::uint64_t protocol, Disposition then) {
            add(socket_call, {of_family, equals(1, type, socket_type_mask), equals(2, protocol)}, then);
        };
        open(SOCK_STREAM, 0, made);
        open(SOCK_STREAM, IPPROTO_TCP, made);
        if (plan_.udp || plan_.look_ups) {
            // A UDP socket then comes from the supervisor (supervisor/names/room.hpp).
            open(SOCK_DGRAM, 0, plan_.udp ? made : notify);
            open(SOCK_DGRAM, IPPROTO_UDP, plan_.udp ? made : notify);
        }
        const auto refuse_type = [&](std::uint64_t type, std::optional<std::uint64_t> protocol, int error,
                                     const RefusedKind& kind) {
            std::vector<ArgumentTest> tests{of_family, equals(1, type, socket_type_mask)};
            if (protocol) tests.push_back(equals(2, *protocol));
            add(socket_call, std::move(tests), refuse(error), &kind);
        };
        refuse_type(SOCK_RAW, std::nullopt, EPERM, refused::raw);
        refuse_type(SOCK_DGRAM, 0, EPROTONOSUPPORT, refused::udp);
        refuse_type(SOCK_DGRAM, IPPROTO_UDP, EPROTONOSUPPORT, refused::udp);
        const auto icmp = static_cast<std::uint64_t>(family == AF_INET ? +IPPROTO_ICMP : +IPPROTO_ICMPV6);
        refuse_type(SOCK_DGRAM, icmp, EPROTONOSUPPORT, refused::raw);
        refuse_type(SOCK_STREAM, mptcp_protocol, EPROTONOSUPPORT, refused::mptcp);
        add(socket_call, {of_family}, refuse(EPROTONOSUPPORT), &refused::protocols);
    }

    static constexpr std::uint32_t socket_call = call_number("socket"),
                                   socketpair_call = call_number("socketpair");

    const Plan& plan_;
    const bool nested_, container_;
    FilterSpec spec_;
};

bool is_notified(const FilterSpec& spec, std::uint32_t number) {
    for (const FilterRule& rule : spec.rules) {
        if (rule.call == number && rule.then.kind == Disposition::Kind::notify) return true;
    }
    return false;
}

}  // namespace

FilterSpec filter_spec(const Plan& plan) { return Builder(plan).build(); }

FilterSpec nested_filter_spec(const Plan& plan) { return Builder(plan, Held::nested_run).build(); }

FilterSpec container_filter_spec(const Plan& plan) { return Builder(plan, Held::container).build(); }

std::optional<std::string> lacks_for_nested(const Plan& around, const Plan& nested) {
    if (nested.parties) return "rules that tell an agent from its tools need a run that is not nested";
    if (const OperationSet left = nested.notified - around.notified; !left.empty())
        return "these rules decide " + rules::names(left) +
               " call by call, and the run around this one leaves that to the kernel: give that run a rule "
               "that "
               "restricts it, or --record contested";
    if ((nested.udp || nested.unix_datagram) && nested.notified.contains(Operation::connect) &&
        around.sends_held)
        return "these rules decide datagrams one by one, and the run around this one leaves them to the "
               "kernel: "
               "give that run --record contested";
    if (nested.look_ups && !around.look_ups)
        return "these rules name hosts, and the run around this one decides no look-up of a name: give that "
               "run a "
               "rule with a host";
    if (nested.run_servers && !around.run_servers)
        return "these rules are about servers of the run's own, and the run around this one has no such "
               "rule: give "
               "it one with \"server\": \"run\"";
    if (nested.set_ids_left_out && !around.set_ids_left_out)
        return "the run around this one keeps capabilities, which a nested run cannot take away";
    return std::nullopt;
}

std::vector<NotifiedCall> notified_calls(const Plan& plan) {
    const FilterSpec spec = filter_spec(plan);
    std::vector<NotifiedCall> calls;
    for (const CallEntry& entry : call_table()) {
        if (!is_notified(spec, entry.number)) continue;
        NotifiedCall call{entry.name, entry.operations & plan.notified, {}};
        for (const Operation operation : call.operations) {
            if (const auto* contest = plan.contest(operation)) {
                for (const std::string& id : contest->because) {
                    if (std::find(call.because.begin(), call.because.end(), id) == call.because.end()) {
                        call.because.push_back(id);
                    }
                }
            }
        }
        if (entry.scope == Scope::object && entry.when == NotifyWhen::always)
            call.because.emplace_back("links");
        if (entry.scope == Scope::process) call.because.emplace_back("other processes");
        if (entry.scope == Scope::ipc_object)
            call.because.emplace_back("objects of this user that the run did not make");
        if (call.because.empty() && entry.when == NotifyWhen::by_socket_kind)
            call.because.emplace_back("kinds of sockets");
        if (call.because.empty() && entry.name == "ioctl") call.because.emplace_back("terminals");
        if (call.because.empty() && plan.set_ids_left_out) call.because.emplace_back("set-id bits");
        calls.push_back(std::move(call));
    }
    return calls;
}

}  // namespace callgate::enforce
