// The lines of the footer about calls that the filter refused by their arguments.

#include <algorithm>

#include "base/plural.hpp"
#include "base/reader_letters.hpp"
#include "supervisor/run/report_parts.hpp"

namespace callgate {

namespace {

constexpr std::size_t max_programs = 4;  // named in one line

struct Line {
    const enforce::RefusedKind* kind;
    std::vector<std::pair<std::string, std::uint64_t>> programs;  // short names, with the number of calls
    std::uint64_t others = 0;                                     // calls of further programs
};

void add(Line& line, const calls::Refusals::Seen& seen) {
    const std::string name = seen.program.substr(seen.program.rfind('/') + 1);  // npos + 1 is 0
    const auto known = std::ranges::find(line.programs, name, &std::pair<std::string, std::uint64_t>::first);
    if (known != line.programs.end()) {
        known->second += seen.count;
    } else if (line.programs.size() < max_programs && !name.empty()) {
        line.programs.emplace_back(name, seen.count);
    } else {
        line.others += seen.count;
    }
}

std::string text_of(const Line& line) {
    std::string callers;
    for (const auto& [name, count] : line.programs) {
        callers += (callers.empty() ? "" : "; ") + delimited_name(name) + ", " + plural(count, "time");
    }
    if (line.others > 0) {
        callers += (callers.empty() ? "" : "; ") + plural(line.others, "time") + " by others";
    }
    std::string text = "callgate: ";
    text.append(line.kind->name).append(" refused (").append(callers).append("): ");
    return text.append(line.kind->consequence) + '\n';
}

}  // namespace

std::string refusals_text(const std::vector<calls::Refusals::Seen>& refused, const RunOutcome& outcome) {
    const bool succeeded = outcome.outcome == Outcome::exited && outcome.exit_code == 0;
    std::vector<Line> lines;
    for (const calls::Refusals::Seen& seen : refused) {
        if (seen.kind->probed && succeeded) continue;
        auto line = std::ranges::find(lines, seen.kind, &Line::kind);
        if (line == lines.end()) line = lines.insert(lines.end(), Line{seen.kind, {}, 0});
        add(*line, seen);
    }
    std::string text;
    for (const Line& line : lines) text += text_of(line);
    return text;
}

}  // namespace callgate
