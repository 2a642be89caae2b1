// A rule as it was written, with its variables expanded. The parser makes it; rule set, plan, `check` and
// `explain` read it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/port_range.hpp"
#include "rules/model/glob.hpp"
#include "rules/model/operation.hpp"
#include "rules/model/request.hpp"
#include "rules/model/verdict.hpp"

namespace callgate::rules {

/// The place of a rule. `file` is a path, "profile NAME", "option --read", or "built-in".
struct Source {
    std::string file;
    int line = 0;
    int column = 0;
};

/// An address block: `prefix` bits of `address` count (0..32 or 0..128).
struct Cidr {
    IpAddress address;
    int prefix = 0;
    [[nodiscard]] bool contains(const IpAddress& other) const;
    bool operator==(const Cidr&) const = default;
};

using callgate::PortRange;

/// A host condition: `name`, or `*.suffix`. ASCII, lower case, without a final dot.
struct HostPattern {
    std::string text;
    bool suffix = false;
    /// Whether it names this host: `*.suffix` is every name below the suffix, and not the suffix itself.
    [[nodiscard]] bool matches(std::string_view name) const;
    bool operator==(const HostPattern&) const = default;
};

/// Protocols named by a rule. All false means not stated: allow and ask then cover TCP and unix stream and
/// seqpacket, deny and kill cover everything (docs/rules.md, Datagrams).
struct Protocols {
    bool tcp = false, udp = false, stream = false, datagram = false;
    [[nodiscard]] bool stated() const { return tcp || udp || stream || datagram; }
    bool operator==(const Protocols&) const = default;
};

/// Conditions of a rule or of its exception: all that are present must hold; an empty list is absent.
struct Conditions {
    std::vector<Glob> path;
    std::vector<HostPattern> host;
    std::vector<Cidr> address;
    /// `address` has "${own}": it holds the addresses of the start, and `Endpoint::own` those that came
    /// later.
    bool own_address = false;
    std::vector<PortRange> port;
    /// Only servers of the run's own (Endpoint::of_run). The parser wants loopback addresses beside it.
    bool run_server = false;
    Protocols protocol;
    std::vector<Glob> unix_socket;
    std::vector<Glob> program;
    /// Element by element; "**" alone matches any number of elements.
    std::optional<std::vector<Glob>> argv;
    std::optional<Party> party;
};

/// The end of a new file's name until it takes the place of one that the run may change by a list of keys.
inline constexpr std::string_view new_file_suffix = ".callgate";
/// The end of the name of git's lock on such a file.
inline constexpr std::string_view lock_suffix = ".lock";

struct Rule {
    std::string id;
    Action action = Action::deny;
    OperationSet operations;
    Conditions when;
    std::optional<Conditions> except;
    std::string reason;
    /// errno number for a denial, if the rule states one.
    std::optional<int> error;
    /// Deny only. Of reading: a run that only reads a settings file of a known format gets a copy without
    /// credentials. Of writing alone: a git repository's settings are changed by the list of harmless keys.
    bool filtered = false;
    [[nodiscard]] bool filters_changes() const { return filtered && !operations.contains(Operation::read); }
    /// Deny only: the rule decides where no other one does, in place of a default that asks or denies. The
    /// footer leaves such denials out.
    bool quiet = false;
    /// Quiet only: the footer names such a denial after all if the command failed.
    bool told_on_failure = false;
    /// Deny only: the rule speaks of symbolic links that get such a name (link_names.hpp), and of nothing
    /// else. Then `operations` is empty.
    bool links = false;
    /// Connects by name that the rule allows go past the check of the TLS server's name.
    bool tls_pass = false;
    /// Left out where the kernel lacks Landlock's right for unix sockets (LoadContext::landlock_unix).
    bool needs_landlock_unix = false;
    /// A rule that protects callgate (invariant 9): it cannot be removed, and `plan` shows it.
    bool built_in = false;
    Source source;
};

}  // namespace callgate::rules
