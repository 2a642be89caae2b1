#include "supervisor/enforce/filter_spec.hpp"

#include <fcntl.h>
#include <linux/audit.h>
#include <linux/netlink.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
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

constexpr std::uint32_t audit_architecture =
    native_architecture == Architecture::x86_64 ? AUDIT_ARCH_X86_64 : AUDIT_ARCH_AARCH64;

constexpr std::uint64_t socket_type_mask = 0xf;

constexpr Disposition allow{Disposition::Kind::allow, 0};
constexpr Disposition notify{Disposition::Kind::notify, 0};
constexpr Disposition refuse(int error) { return {Disposition::Kind::refuse, error}; }

class Builder {
public:
    explicit Builder(const Plan& plan) : plan_(plan) {}

    FilterSpec build() {
        spec_.architecture = audit_architecture;
        spec_.newest_call = newest_call;
        // Refusals come first, so that they are never notified.
        for (const Refusal& refusal : refusals()) refused(refusal);
        for (const CallEntry& entry : call_table()) {
            if (entry.number != no_number) mediated(entry);
        }
        sockets();
        for (const ClosedNumber& call : closed_numbers()) add(call.number, {}, refuse(call.error));
        for (const NumberRange& range : unassigned_numbers()) {
            spec_.rules.push_back({range.first, {}, refuse(ENOSYS), range.last});
        }
        return std::move(spec_);
    }

private:
    void add(std::uint32_t call, std::vector<ArgumentTest> tests, Disposition then) {
        if constexpr (test_switches) {
            if (then.kind == Disposition::Kind::refuse && !check_enabled(call_name(call))) return;
        }
        spec_.rules.push_back({call, std::move(tests), then});
    }

    void refused(const Refusal& refusal) {
        if (refusal.number == no_number || !refusal.applies(plan_) || !check_enabled(refusal.what)) return;
        add(refusal.number, {refusal.tests.begin(), refusal.tests.begin() + refusal.test_count},
            refuse(refusal.error));
    }

    void mediated(const CallEntry& entry) {
        if (entry.open != OpenFlags::none) return open(entry);
        if (notified(entry)) add_notified(entry);
    }

    [[nodiscard]] bool notified(const CallEntry& entry) const {
        const bool contested = entry.operations.intersects(plan_.notified);
        switch (entry.when) {
            case NotifyWhen::contested:
                return contested;
            case NotifyWhen::contested_truncation:
                return contested || !plan_.truncation_held;
            case NotifyWhen::contested_datagrams:
                return contested && (plan_.udp || plan_.unix_datagram);
            case NotifyWhen::signals_not_held:
                return !plan_.signals_held;
            case NotifyWhen::always:
                return true;
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
        if (!reads && !writes) return;
        if (entry.open != OpenFlags::argument) return add(entry.number, {}, notify);
        const auto flags = static_cast<std::uint8_t>(entry.flags);
        constexpr std::uint64_t writing = O_ACCMODE | O_CREAT | O_TRUNC | O_TMPFILE;
        add(entry.number, {has(flags, O_PATH)}, allow);
        if (!reads) {
            add(entry.number, {has(flags, writing & ~static_cast<std::uint64_t>(O_DIRECTORY))}, notify);
        } else {
            // If writes are not contested, only write-only opens are left out: an O_RDWR open reads too.
            if (!writes) add(entry.number, {equals(flags, O_WRONLY, O_ACCMODE)}, allow);
            add(entry.number, {}, notify);
        }
    }

    /// An allow-list of families, types and protocols.
    void sockets() {
        internet(AF_INET);
        internet(AF_INET6);
        if (plan_.unix_closed) add(socket_, {equals(0, AF_UNIX)}, refuse(EACCES));
        for (const std::uint32_t call : {socket_, socketpair_}) {
            add(call, {equals(0, AF_UNIX), equals(1, SOCK_STREAM, socket_type_mask)}, allow);
            add(call, {equals(0, AF_UNIX), equals(1, SOCK_SEQPACKET, socket_type_mask)}, allow);
            if (plan_.unix_datagram) {
                add(call, {equals(0, AF_UNIX), equals(1, SOCK_DGRAM, socket_type_mask)}, allow);
            }
            add(call, {equals(0, AF_UNIX)}, refuse(EPROTONOSUPPORT));
        }
        add(socket_, {equals(0, AF_NETLINK), equals(2, NETLINK_ROUTE)}, allow);
        add(socket_, {equals(0, AF_NETLINK)}, refuse(EPROTONOSUPPORT));
        add(socket_, {}, refuse(EAFNOSUPPORT));
        add(socketpair_, {}, refuse(EAFNOSUPPORT));
    }

    void internet(int family) {
        const ArgumentTest of_family = equals(0, static_cast<std::uint64_t>(family));
        const auto open = [&](std::uint64_t type, std::uint64_t protocol) {
            add(socket_, {of_family, equals(1, type, socket_type_mask), equals(2, protocol)}, allow);
        };
        open(SOCK_STREAM, 0);
        open(SOCK_STREAM, IPPROTO_TCP);
        if (plan_.udp) {
            open(SOCK_DGRAM, 0);
            open(SOCK_DGRAM, IPPROTO_UDP);
        }
        add(socket_, {of_family, equals(1, SOCK_RAW, socket_type_mask)}, refuse(EPERM));
        add(socket_, {of_family}, refuse(EPROTONOSUPPORT));
    }

    static constexpr std::uint32_t socket_ = call_number("socket"), socketpair_ = call_number("socketpair");

    const Plan& plan_;
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
        if (entry.scope == Scope::process) call.because.emplace_back("processes outside the run");
        if (entry.scope == Scope::ipc_object)
            call.because.emplace_back("objects of this user that the run did not make");
        calls.push_back(std::move(call));
    }
    return calls;
}

}  // namespace callgate::enforce
