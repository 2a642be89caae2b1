// The evidence of `audit suggest` and the rules that are proposed for it. The parts of suggest.cpp alone use
// it.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <map>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "supervisor/audit/read/reader.hpp"
#include "supervisor/audit/verbs/replay.hpp"
#include "supervisor/audit/verbs/suggest.hpp"
#include "supervisor/audit/verbs/suggest_paths.hpp"

namespace callgate::audit {

inline bool network(const std::string& operation) { return operation == "connect" || operation == "bind"; }

/// "203.0.113.4:443/udp", "[::1]:80" taken apart.
struct HostPort {
    std::string host;
    int port = 0;
    bool udp = false;
};
[[nodiscard]] std::optional<HostPort> endpoint(std::string text);

/// A suggestion takes what was denied or asked about in some runs, and proposes what could allow it.
class Suggestion {
public:
    using Json = nlohmann::ordered_json;

    explicit Suggestion(const SuggestOptions& options) : options_(options) {
        places_.home = options.home;
        places_.account_home = options.account_home;
    }

    void take(const Entry& entry, std::string_view line);
    [[nodiscard]] Suggested all() const;

private:
    struct Key {
        std::string party;  // "": the run had none
        std::string operation, object;
        auto operator<=>(const Key&) const = default;
    };
    struct Evidence {
        std::uint64_t count = 0;
        std::string rule, guard, domain, socket_type;
        bool by_rule = false;
    };
    [[nodiscard]] std::string why_not(const Key& key, const Evidence& evidence) const;
    void file_rules(Json& rules, Json& examples) const;
    void network_rules(Json& rules, Json& examples) const;
    void note_made(const RecordedRequest& request);
    void see(const Entry& entry, rules::OperationSet operations, const rules::Object& object,
             const RecordedRequest& request, const std::string& name);
    [[nodiscard]] std::string guarded(rules::Operation operation, const rules::Object& object,
                                      const RecordedRequest& request) const;
    [[nodiscard]] bool guard_holds() const;
    void write_for_a_person(std::ostream& out) const;
    [[nodiscard]] rules::OperationSet not_allowed(rules::OperationSet operations, const rules::Object& object,
                                                  const RecordedRequest& request) const;
    [[nodiscard]] std::string fresh_id(const std::string& stem, const Json& rules) const;
    void write_dot_directories(std::ostream& out) const;
    [[nodiscard]] std::string text(const std::vector<std::string>& rules, const Json& examples) const;

    const SuggestOptions& options_;
    std::shared_ptr<const rules::RuleSet> there_, guard_;  // of the run that is read
    bool may_widen_ = true;  // what a directory's rule opens beside the seen names is guarded

    KnownPlaces places_;
    std::set<std::string> profiles_, runs_;
    std::map<Key, Evidence> seen_;
    std::set<std::string> stood_;      // names at which something stood that the run did not make
    std::set<std::string> connected_;  // names that connects led to: a rule for these allows their look-ups
    std::uint64_t left_out_ = 0;
};

}  // namespace callgate::audit
