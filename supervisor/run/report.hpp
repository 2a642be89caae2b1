// The report of a run: denials gathered as they happen, the footer on stderr, and the JSON report
// (docs/report.schema.json).
//
// Workers note denials, so it is thread-safe. It keeps at most 256 distinct denials and counts the rest.
#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "rules/match/rule_set.hpp"
#include "supervisor/audit/write/outcome.hpp"
#include "supervisor/audit/write/record.hpp"
#include "supervisor/decide/refusals.hpp"
#include "supervisor/decide/sink.hpp"
#include "supervisor/run/denials_file.hpp"
#include "supervisor/run/limits/held.hpp"
#include "supervisor/run/planted.hpp"

namespace callgate {

struct RunOutcome {
    Outcome outcome = Outcome::setup_error;
    int exit_status = 125;         // callgate's own
    std::optional<int> exit_code;  // the command's
    std::optional<int> signal;
    std::int64_t duration_ms = 0;
    std::uint64_t cpu_ms = 0, max_rss_kb = 0, bytes_written = 0, processes = 0;
    std::uint64_t notifications = 0, continued = 0;  // notified calls; the ones that the kernel carried out
    std::optional<limits::TreePeak> peak;            // if a limit concerned the whole tree
    std::uint64_t ended_background = 0;              // processes that the command left running
    bool directory_removed = false;                  // the guardian removed the private directory
    int log_error = 0;                               // errno of the first record that was not written
    std::string error;                               // for people; "" if there is none
};

struct RunFacts {
    std::string run;
    Mode mode = Mode::enforce;
    std::string workdir, rules_sha256;
    std::vector<std::string> command, degraded;
    int landlock_abi = 0;
    rules::Limits limits;
    std::string audit_file;  // "" if the log is no file
    bool audited = true;
    std::vector<std::string> held_back = {};   // names of variables that hold a credential
    std::vector<std::string> not_passed = {};  // names of the other variables that the command did not get
    std::vector<std::string> agents_own =
        {};                                 // names of those that the agent had, and nothing that it executed
    std::vector<std::string> exposed = {};  // names of its proxies whose URL holds a password
    Planted planted = {};                   // looked for where the footer is shown
    std::string home = {};                  // the user's
    std::string directory = {};             // the command started here; "": in `workdir`
};

class RunReport final : public calls::DecisionSink {
public:
    RunReport();
    ~RunReport() override;
    /// Lets hints name every option that a denied call needs; a call that no option allows gets no hint.
    /// Call it before the first `note`.
    /// `home` is the user's: profiles that name places in it are offered.
    void use_rules(std::shared_ptr<const rules::RuleSet> rules, const std::string& home);
    /// The report is one of a nested run: its default is no other run's.
    void for_nested_run();
    /// Calls that the filter refused: footer and report show them. They outlive the report.
    void use_refusals(const calls::Refusals& refusals);
    /// The command's list gets a line for each kind of denial, before the call is answered. It outlives the
    /// report.
    void use_denials(DenialsFile& denials);
    /// Counts the decision. Keeps a denial (deny, kill, ask that was denied) by operation, object and rule.
    void note(const audit::Decision& decision) override;
    [[nodiscard]] audit::Counts counts() const;
    /// The reason why `operation` was denied last, and with `hints` the option that would allow it. "" if it
    /// was never denied.
    [[nodiscard]] std::string last_denial(rules::Operation operation, bool hints) const;
    /// The footer: each denial with its count, its rule and, with `hints`, the option that would allow it.
    /// Each line starts with "callgate: " and is terminal-safe. "" if nothing was denied or ended.
    [[nodiscard]] std::string footer(const RunFacts& facts, const RunOutcome& outcome, bool hints) const;
    /// The report: a JSON object and a newline.
    [[nodiscard]] std::string json(const RunFacts& facts, const RunOutcome& outcome, std::uint64_t records,
                                   const std::string& head) const;

    /// Counts and denials for the callgate of a nested run, as one JSON value.
    [[nodiscard]] std::string gathered_json() const;
    /// Takes that over, into a report that has noted nothing.
    void take(const nlohmann::json& gathered);

private:
    [[nodiscard]] std::string observed_text(const RunFacts& facts, std::uint64_t would, bool hints) const;

    struct State;
    std::unique_ptr<State> state_;
};

/// The option of `callgate run` that would allow this denial, shell-quoted: "--read '/home/u/x y'",
/// "--connect 127.0.0.1:80", "--except secrets=/home/u/.ssh/config" for a deny rule. "" if no option can
/// (built-in rules, failures).
[[nodiscard]] std::string hint(const audit::Decision& decision);
/// The same for a decision of `rules`. It names all options that are needed if one exception is not enough:
/// another rule denies too, or no rule allows.
[[nodiscard]] std::string hint(const audit::Decision& decision, const rules::RuleSet& rules);

/// The same, for those who see denials without having asked: the footer, and a model. "" if a rule denies or
/// kills: an option for that would open a secret, or let code in that runs later. They see the rule's name.
/// "" for a file whose name says that it may hold a credential. "-p NAME" if a shipped profile is for this.
[[nodiscard]] std::string offered_hint(const audit::Decision& decision, const rules::RuleSet* rules,
                                       const std::string& home);

/// The shipped profile that adds to those of `rules` and allows the operations; "" if there is none.
[[nodiscard]] std::string offered_profile(const rules::Object& object, rules::OperationSet operations,
                                          const rules::RuleSet& rules, const std::string& home);

/// The same for a name in /tmp that the program puts elsewhere under a shipped profile.
[[nodiscard]] std::string offered_profile(const rules::Object& object, std::string_view program,
                                          const rules::RuleSet& rules);

/// The object of a denial, not yet terminal-safe: a path, "203.0.113.4:443", "[::1]:80/udp", "@name". For a
/// rename or link whose new name is denied: that name.
[[nodiscard]] std::string object_text(const audit::Decision& decision);

}  // namespace callgate
