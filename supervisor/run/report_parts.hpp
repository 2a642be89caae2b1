// Declarations that the sources of the report share.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "rules/model/operation.hpp"
#include "supervisor/run/report.hpp"

namespace callgate {

/// The first denied call of its kind, and the number of such calls. The target chooses the texts.
struct Denial {
    std::string object, rule, program, hint;
    std::string others{};  // of a line for several: " and 2 more names there"
    std::string note;      // "credentials", "no one to ask", ... for people
    rules::Operation operation = rules::Operation::read;
    bool by_rule = false;
    bool by_nested = false;  // the rules of a nested run, whose texts a program may have written
    bool would = false;      // audit mode: it was not denied, but would have been
    bool look_up = false;    // the object is a name that was to be looked up
    bool to_server = false;  // a connect that is allowed if a server of the run's own listens there
    int pid = 0, error = 0;
    std::uint64_t count = 0;
};

/// Whether the verdict is one of a nested run, for the report of the run around it. `own` are the rules that
/// the report is about; a report of a nested run (`of_nested`) has its own default.
[[nodiscard]] bool is_of_nested(const audit::Decision& decision, const rules::RuleSet* own, bool of_nested);

/// The rule that decided, else what did.
[[nodiscard]] std::string rule_of(const audit::Decision& decision);

/// `decision` as the first denied call of its kind. `rules` and `home` are for its hint.
[[nodiscard]] Denial denial_of(const audit::Decision& decision, const rules::RuleSet* rules,
                               const std::string& home, bool of_nested);

/// A server that was kept from its port does not listen, and the connects of its clients are denied as those
/// to a stranger are. Gives them the server's option, which serves both. `--connect` would serve nobody.
void name_server_options(std::vector<Denial>& denials);

/// The rule, as people read of it; terminal-safe.
[[nodiscard]] std::string rule_text(const Denial& denial);

/// The line of the footer for a denial, terminal-safe.
[[nodiscard]] std::string denial_line(const Denial& denial, bool hints);

/// A line of the footer for each kind of calls that the filter refused, terminal-safe. Kinds for which
/// libraries only probe are left out if the command succeeded.
[[nodiscard]] std::string refusals_text(const std::vector<calls::Refusals::Seen>& refused,
                                        const RunOutcome& outcome);

/// The first line of the footer if git was kept from changing a file beneath the work directory; else "".
[[nodiscard]] std::string half_switched_text(const std::vector<Denial>& denials, std::string_view workdir);

/// A line of the footer if files were denied that belong to the same repository as the work directory; else
/// "".
[[nodiscard]] std::string repository_text(const std::vector<Denial>& denials, const RunFacts& facts);

/// The lines of the footer for these denials: names of one directory that one option would allow are one line
/// from the third name on. The read of a program that may not be executed has no line. `home` is the user's;
/// no option is offered for all of it.
[[nodiscard]] std::vector<Denial> gathered(const std::vector<Denial>& noted, const std::string& home);

/// The report: a JSON object and a newline.
[[nodiscard]] std::string report_json(const RunFacts& facts, const RunOutcome& outcome,
                                      const audit::Counts& counts, const std::vector<Denial>& denials,
                                      std::uint64_t quiet, const std::vector<calls::Refusals::Seen>& refused,
                                      std::uint64_t records, const std::string& head);

}  // namespace callgate
