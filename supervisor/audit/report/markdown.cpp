#include "supervisor/audit/report/markdown.hpp"

#include <algorithm>
#include <ostream>
#include <vector>

#include "base/escape.hpp"
#include "base/plural.hpp"
#include "supervisor/audit/report/collect.hpp"
#include "supervisor/audit/verbs/show_rows.hpp"
#include "supervisor/audit/write/outcome.hpp"

namespace callgate::audit::report {

namespace {

constexpr std::size_t max_denials = 50, max_name = 160, max_option = 600;

/// Cuts out the middle, because both ends of a path tell most. Never cuts within a character.
std::string shortened(const std::string& text, std::size_t longest) {
    if (text.size() <= longest) return text;
    const auto within = [&text](std::size_t at) {
        return (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80;
    };
    std::size_t head = longest / 2, tail = text.size() - longest / 2;
    while (head > 0 && within(head)) --head;
    while (tail < text.size() && within(tail)) ++tail;
    return text.substr(0, head) + "…" + text.substr(tail);
}

std::string code(const std::string& text, std::size_t longest = max_name) {
    return markdown_code(shortened(terminal_safe(text), longest));
}

std::string object_text(const Contents& contents, std::uint32_t number) {
    const Object& object = contents.objects.all()[number];
    if (object.text == Object::none) return "(an object that is not listed)";
    std::string text = contents.strings.text(object.text);
    if (object.kind == ObjectKind::beneath) text += "/…";
    if (object.second != Object::none) text += " → " + contents.strings.text(object.second);
    if (text.empty()) return "(no name)";
    if (object.kind != ObjectKind::host || object.host == Object::none) return text;
    const std::string& host = contents.strings.text(object.host);
    return text.find(host) == std::string::npos ? text + " (" + host + ')' : text;
}

void write_run(std::ostream& out, const Run& run) {
    const char* const sign = run.outcome.empty() ? "⚪" : ended_well(run) ? "🟢" : "🔴";
    out << "### " << sign << " callgate: " << code(command_text(run.command)) << "\n\n";
    out << "| run | outcome | mode | started | took | work directory |\n|---|---|---|---|---|---|\n| "
        << code(run.name) << " | " << code(outcome_text(run)) << " | "
        << (run.mode == callgate::name(Mode::audit) ? "audit: nothing was enforced" : "enforced") << " | "
        << (run.started == 0 ? "?" : time_text(run.started)) << " | "
        << (run.outcome.empty() ? "?" : std::to_string(run.duration_ms) + " ms") << " | " << code(run.workdir)
        << " |\n\n";
}

void write_counts(std::ostream& out, const Contents& contents) {
    const Tally& calls = contents.calls_by_outcome;
    out << "**" << plural(calls[1], "call") << " denied**";
    if (calls[2] > 0) out << ", **" << calls[2] << " would have been denied or asked**";
    out << ", " << calls[0] << " allowed";
    out << " (of those that the rules contest; the rest the kernel decides alone).\n\n";
    std::vector<std::pair<std::uint32_t, Tally>> rules(contents.rules.begin(), contents.rules.end());
    std::stable_sort(rules.begin(), rules.end(), [](const auto& one, const auto& other) {
        return std::pair(one.second[1] + one.second[2], one.second[0]) >
               std::pair(other.second[1] + other.second[2], other.second[0]);
    });
    if (rules.empty()) return;
    constexpr std::size_t max_rules = 20;
    out << "| rule | denied | would be | allowed |\n|---|--:|--:|--:|\n";
    for (std::size_t index = 0; index < std::min(rules.size(), max_rules); ++index) {
        const std::string& name = contents.strings.text(rules[index].first);
        const Tally& tally = rules[index].second;
        out << "| " << (name.empty() ? "(no rule)" : code(name)) << " | " << tally[1] << " | " << tally[2]
            << " | " << tally[0] << " |\n";
    }
    if (rules.size() > max_rules) out << "\n… and " << plural(rules.size() - max_rules, "more rule") << ".\n";
    out << '\n';
}

void write_fix(std::ostream& out, const Fix& fix) {
    // A shortened option would allow something else, so a long one is not offered.
    if (fix.option.size() + fix.also.size() > max_option) {
        out << "too long for a table, see <code>callgate audit show</code>";
        return;
    }
    if (!fix.option.empty()) out << markdown_code(fix.option);
    if (!fix.also.empty()) out << " and, where no other rule allows it, " << markdown_code(fix.also);
    if (!fix.note.empty()) out << (fix.option.empty() ? "" : "; ") << fix.note;
}

void write_denials(std::ostream& out, const Contents& contents, Outcome outcome, const char* title) {
    std::vector<const Denial*> denials;
    for (const Denial& denial : contents.denials.all())
        if (denial.outcome == outcome) denials.push_back(&denial);
    if (denials.empty()) return;
    std::stable_sort(denials.begin(), denials.end(),
                     [](const Denial* one, const Denial* other) { return one->count > other->count; });
    out << "<details><summary>" << title << ": " << denials.size() << "</summary>\n\n"
        << "| operation | object | times | rule | to allow it |\n|---|---|--:|---|---|\n";
    for (std::size_t index = 0; index < std::min(denials.size(), max_denials); ++index) {
        const Denial& denial = *denials[index];
        const auto text = [&contents](std::uint32_t number) { return contents.strings.text(number); };
        const std::string rule = text(denial.rule), reason = text(denial.reason);
        out << "| " << code(text(denial.operation)) << " | " << code(object_text(contents, denial.object))
            << " | " << denial.count << " | " << (rule.empty() ? "(no rule)" : code(rule));
        if (!reason.empty()) out << " (" << code(reason) << ')';
        out << " | ";
        write_fix(out, denial.fix);
        out << " |\n";
    }
    if (denials.size() > max_denials)
        out << "\n… and " << plural(denials.size() - max_denials, "more kind") << " of call.\n";
    out << "\n</details>\n\n";
}

}  // namespace

std::string markdown_code(std::string_view text) {
    std::string out = "<code>";
    for (const char one : text) {
        const auto byte = static_cast<unsigned char>(one);
        const bool bare = byte >= 0x80 || (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z') ||
                          (byte >= '0' && byte <= '9') || byte == '/' || byte == ' ';
        if (bare)
            out += one;
        else
            out += "&#" + std::to_string(byte) + ';';
    }
    return out + "</code>";
}

void write_markdown(std::ostream& out, const Contents& contents) {
    if (contents.runs.empty()) out << "### callgate: no run on record\n\n";
    for (const Run& run : contents.runs) write_run(out, run);
    write_counts(out, contents);
    write_denials(out, contents, Outcome::refused, "Denied");
    write_denials(out, contents, Outcome::would, "Would have been denied or asked");
    if (contents.denials.cut() > 0)
        out << plural(contents.denials.cut(), "call") << " of further kinds are not listed.\n\n";
    if (contents.bad_lines > 0)
        out << "⚠ Of the log, " << plural(contents.bad_lines, "line") << " could not be read as records.\n\n";
    out << "<sub>" << plural(contents.records, "record") << "; head "
        << (contents.head.empty() ? "none" : code("sha256:" + contents.head)) << "</sub>\n";
}

}  // namespace callgate::audit::report
