// What a run leaves behind for people and programs: denials gathered as they happen, the footer on stderr,
// the JSON report (cli.md, Report).
//
// Thread-safe: receivers note denials; the bound of distinct denials kept is 256 (the rest is counted).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "rules/match/rule_set.hpp"
#include "supervisor/audit/write/record.hpp"
#include "supervisor/decide/sink.hpp"
#include "supervisor/run/limits/held.hpp"

namespace callgate {

struct RunOutcome {
    std::string outcome;    // "exited", "signaled", "exec_failed", "timeout", "cancelled", "killed_by_rule",
                            // "setup_error"
    int exit_status = 125;  // callgate's own
    std::optional<int> exit_code;  // the command's
    std::optional<int> signal;
    std::int64_t duration_ms = 0;
    std::uint64_t cpu_ms = 0, max_rss_kb = 0, bytes_written = 0, processes = 0;
    std::uint64_t notifications = 0, continued = 0;  // notified calls; those that the kernel went on with
    std::optional<limits::TreePeak> peak;            // where a limit of the tree was held
    std::uint64_t ended_background = 0;              // processes that were left running and were ended
    bool directory_removed = false;  // the private one, by the guardian; true where there is none
    std::string error;               // "" none
};

struct RunFacts {
    std::string run, mode, workdir, rules_sha256;
    std::vector<std::string> command, degraded;
    int landlock_abi = 0;
    rules::Limits limits;
    std::string audit_file;  // "" where there is none
    bool audited = true;
    std::vector<std::string> held_back;  // names of variables that hold a credential
};

class RunReport final : public calls::DecisionSink {
public:
    RunReport();
    ~RunReport() override;
    /// With the rules, hints name every option that a denied call needs, and are left out where none would
    /// do. Call it before the first `note`.
    void use_rules(std::shared_ptr<const rules::RuleSet> rules);
    /// Counts the decision; a denial (deny, kill, ask that was denied) is kept by operation, object and rule.
    void note(const audit::Decision& decision) override;
    [[nodiscard]] audit::Counts counts() const;
    /// Why `operation` was denied last, and with `hints` the option that would allow it; "" where it never
    /// was.
    [[nodiscard]] std::string last_denial(rules::Operation operation, bool hints) const;
    /// The footer: what was denied, how often, by which rule, and the option that would allow it (`hints`),
    /// each line prefixed "callgate: ", terminal-safe. "" where nothing was denied or ended.
    [[nodiscard]] std::string footer(const RunFacts& facts, const RunOutcome& outcome, bool hints) const;
    /// One JSON object with a newline.
    [[nodiscard]] std::string json(const RunFacts& facts, const RunOutcome& outcome, std::uint64_t records,
                                   const std::string& head) const;

private:
    [[nodiscard]] std::string observed_text(const RunFacts& facts, std::uint64_t would, bool hints) const;

    struct State;
    std::unique_ptr<State> state_;
};

/// The option of `callgate run` that would allow this denial, shell-quoted: "--read '/home/u/x y'",
/// "--connect 127.0.0.1:80", "--except secrets=/home/u/.ssh/config" where a deny rule decided; "" where none
/// can (built-in rules, failures).
[[nodiscard]] std::string hint(const audit::Decision& decision);
/// The same for a decision of `rules`: where an exception alone would not do (another rule denies too, or
/// nothing allows), all options that are needed.
[[nodiscard]] std::string hint(const audit::Decision& decision, const rules::RuleSet& rules);

/// What a denial is about, not yet safe for a terminal: a path, "203.0.113.4:443", "[::1]:80/udp", "@name".
/// Of a rename or link that may not make its new name: that name.
[[nodiscard]] std::string object_text(const audit::Decision& decision);

}  // namespace callgate
