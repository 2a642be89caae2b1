#include "supervisor/audit/verbs/show.hpp"

#include <unistd.h>

#include <cstdlib>
#include <ctime>
#include <ostream>

#include "base/escape.hpp"
#include "base/plural.hpp"
#include "supervisor/audit/read/reader.hpp"
#include "supervisor/audit/verbs/selection.hpp"
#include "supervisor/audit/verbs/show_rows.hpp"
#include "supervisor/audit/verbs/table.hpp"
#include "supervisor/audit/write/outcome.hpp"

namespace callgate::audit {

bool colour_wanted(int descriptor) {
    const char* const no = std::getenv("NO_COLOR");
    return (no == nullptr || *no == '\0') && ::isatty(descriptor) == 1;
}

std::optional<Opened> open_log(std::ostream& errors, const LogChoice& choice, const Filter& filter) {
    const auto fail = [&errors](const std::string& why) {
        errors << terminal_safe(why) << '\n';
        return std::nullopt;
    };
    Expected<Selection> selection = Selection::make(filter, ::time(nullptr));
    if (!selection) return fail(selection.error().text);
    const Expected<std::string> path = find_log(choice);
    if (!path) return fail(path.error().text);
    Result<Reader> reader = Reader::open(*path);
    if (!reader) return fail(*path + ": " + reader.error().message());
    return Opened{std::move(*selection), std::move(*reader)};
}

void say_bad(std::ostream& errors, const Reader& reader) {
    errors << terminal_safe(reader.path()) << ':' << reader.line_number() << ": " << reader.problem() << '\n';
}

void BadLines::add(const std::string& path, std::uint64_t line, const std::string& problem) {
    if (++count_ > max_) return;
    errors_ << terminal_safe(path) << ':' << line << ": " << problem << '\n';
}

int BadLines::finish() {
    if (count_ > max_) errors_ << "and " << plural(count_ - max_, "more line") << " that are no records\n";
    return count_ > 0 ? exit_finding : 0;
}

void say_torn(std::ostream& errors, const Reader& reader) {
    if (!reader.torn()) return;
    errors << terminal_safe(reader.path())
           << ": the last line is unfinished (still being written, or torn by a crash)\n";
}

std::string command_text(const std::vector<std::string>& command) {
    constexpr std::size_t longest = 160;
    std::string text;
    for (const std::string& argument : command) {
        text += (text.empty() ? "" : " ") + shell_quote(argument);
        if (text.size() <= longest) continue;
        text.resize(longest);  // quoted text is ASCII, so no character is cut in two
        return text + "…";
    }
    return text;
}

namespace {

Colour verdict_colour(const Entry& entry) {
    if (entry.verdict == "allow") return Colour::green;
    if (entry.verdict == "kill") return Colour::bold_red;
    return entry.verdict == "deny" ? Colour::red : Colour::yellow;
}

std::string program_text(const Entry& entry) {
    const std::size_t slash = entry.program.rfind('/');
    const std::string name =
        delimited(slash == std::string::npos ? entry.program : entry.program.substr(slash + 1));
    return (name.empty() ? "?" : name) + " (" + std::to_string(entry.pid) + ")";
}

std::string run_start_text(const Entry& entry) {
    std::string text =
        "run " + entry.run + (entry.mode == callgate::name(Mode::audit) ? " (audit mode)" : "") + ":";
    return text + ' ' + command_text(entry.command);
}

std::string run_end_text(const Entry& entry) {
    std::string text = "end of run " + entry.run + ": " + entry.outcome;
    if (entry.exit_code) text += " " + std::to_string(*entry.exit_code);
    if (entry.signal) text += " (signal " + std::to_string(*entry.signal) + ")";
    return text;
}

/// "2026-11-20T10:11:12.123456789Z" → "2026-11-20T10:11:12.123Z"
std::string short_time(const std::string& time) {
    return time.size() == 30 && time.back() == 'Z' ? time.substr(0, 23) + 'Z' : time;
}

std::string refused_text(const Entry& entry) {
    return "refused: " + entry.kind + " (" + entry.call + ", " + entry.error + ") to " + program_text(entry) +
           (entry.count > 1 ? ", " + plural(entry.count, "time") + " in all" : "") + ": " + entry.reason;
}

}  // namespace

std::string verdict_text(const Entry& entry) {
    if (entry.verdict == "allow") return "allow";
    if (entry.mechanism == "filtered") return "filtered";
    if (entry.mode == callgate::name(Mode::audit) && !entry.refused()) return "would " + entry.verdict;
    if (entry.verdict == "ask" && entry.refused()) return "ask, denied";
    return entry.verdict;
}

std::string other_text(const Entry& entry) {
    if (entry.action == "run.start") return run_start_text(entry);
    if (entry.action == "run.end") return run_end_text(entry);
    const std::string of = " number " + std::to_string(entry.of_sequence);
    if (entry.action == "act.failed") return "allowed call" + of + " failed: " + entry.error;
    if (entry.action == "answer.lost") return "answer to" + of + " was lost: " + entry.reason;
    if (entry.action == "call.refused") return refused_text(entry);
    if (entry.action == "recovered")
        return "a torn line of " + std::to_string(entry.torn_bytes) + " bytes was set aside";
    return entry.action;
}

Rows::Rows(std::ostream& out, bool json, bool colour, bool several) : out_(out), several_(several) {
    if (json) return;
    std::vector<std::string> headers{"TIME", "VERDICT", "OPERATION", "OBJECT", "RULE", "PROGRAM", "RECORD"};
    if (several) headers.insert(headers.begin(), "RUN");
    table_.emplace(out, std::move(headers), colour);
}

void Rows::add(const Entry& entry, std::string_view line) {
    if (!table_) {
        // A forger may have written raw control characters into the file.
        out_ << terminal_safe(line) << '\n';
        return;
    }
    if (!entry.decision()) {
        const std::string time = short_time(entry.time);
        if (several_)
            table_->add_wide({entry.run, Colour::none}, {time + "  " + other_text(entry), Colour::faint});
        else
            table_->add_wide({time, Colour::faint}, {other_text(entry), Colour::faint});
        return;
    }
    std::string object = entry.object.empty() ? "-" : delimited(entry.object);
    if (!entry.domain.empty()) object += " (" + entry.domain + ")";
    if (entry.count > 1) object += " ×" + std::to_string(entry.count);
    const std::string rule = entry.rule.empty() ? entry.reason : entry.rule;
    std::vector<Cell> cells{{short_time(entry.time), Colour::none},
                            {verdict_text(entry), verdict_colour(entry)},
                            {entry.operation, Colour::none},
                            {std::move(object), Colour::none},
                            {rule.empty() ? "-" : rule, Colour::none},
                            {program_text(entry), Colour::none},
                            {std::to_string(entry.sequence), Colour::faint}};
    if (several_) cells.insert(cells.begin(), {entry.run, Colour::none});
    table_->add(std::move(cells));
}

void Rows::pass() {
    constexpr std::uint64_t often = 1024;
    if (++passed_ % often == 0) flush();
}

void Rows::flush() {
    if (table_) table_->flush();
    out_.flush();
}

int show(std::ostream& out, std::ostream& errors, const ShowOptions& options) {
    std::optional<Opened> log = open_log(errors, options.log, options.filter);
    if (!log) return exit_wrong_use;
    Rows rows(out, options.json, options.colour);
    const int status = for_each_record(log->reader, errors, [&](const Entry& entry) {
        if (log->selection.matches(entry)) rows.add(entry, log->reader.line());
        rows.pass();
    });
    rows.flush();
    return status;
}

}  // namespace callgate::audit
