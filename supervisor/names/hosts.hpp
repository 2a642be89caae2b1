// The user's own names: /etc/hosts, and the names of this machine. They are answered here and never asked.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "rules/model/request.hpp"
#include "rules/model/rule.hpp"

namespace callgate::names {

class Hosts {
public:
    /// Reads the file again if it has changed; true if it was read.
    bool refresh();
    /// The addresses of a name, both families; null if the file has no such name. `localhost` and the names
    /// below it always have the loopback addresses.
    [[nodiscard]] const std::vector<rules::IpAddress>* find(std::string_view name) const;
    /// Whether the machine itself has this name.
    [[nodiscard]] bool own(std::string_view name) const { return name == own_; }
    [[nodiscard]] const std::map<std::string, std::vector<rules::IpAddress>, std::less<>>& all() const {
        return all_;
    }

private:
    std::string read_, own_;
    std::map<std::string, std::vector<rules::IpAddress>, std::less<>> all_;
};

/// Whether a name is one of the local network: one label, or below `local` or `internal`. No name server is
/// asked for it unless a rule names it.
[[nodiscard]] bool local_name(std::string_view name);

/// Whether the rule, if there is one, has a condition on hosts that this name fulfils.
[[nodiscard]] bool named_by(const rules::Rule* rule, std::string_view name);

/// Identity and time of a file, also of the one that a link leads to: another text once it was written.
[[nodiscard]] std::string mark_of(const char* path);

/// Names and addresses of a text in the form of hosts(5); at most 65,536 names. Lines that say nothing
/// sensible are left out.
[[nodiscard]] std::map<std::string, std::vector<rules::IpAddress>, std::less<>> parse_hosts(
    std::string_view text);

}  // namespace callgate::names
