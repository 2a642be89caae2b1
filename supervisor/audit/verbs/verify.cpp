#include "supervisor/audit/verbs/verify.hpp"

#include <charconv>
#include <deque>
#include <nlohmann/json.hpp>
#include <ostream>

#include "base/escape.hpp"
#include "base/json_read.hpp"
#include "base/plural.hpp"
#include "supervisor/audit/read/lines.hpp"
#include "supervisor/audit/verbs/show_rows.hpp"

namespace callgate::audit {

namespace {

constexpr std::size_t max_findings = 100;
/// How far back to search for the record after which others were inserted.
constexpr std::size_t window = 4096;

/// The member `"NAME":` of the event, which stands before anything that a target chose.
std::string_view event_member(std::string_view body, std::string_view name) {
    const std::size_t at = body.substr(0, 512).find(name);
    return at == std::string_view::npos ? std::string_view() : body.substr(at + name.size());
}

std::uint64_t sequence_of(std::string_view body) {
    const std::string_view rest = event_member(body, R"("sequence":)");
    std::uint64_t sequence = 0;
    std::from_chars(rest.data(), rest.data() + rest.size(), sequence);
    return sequence;
}

bool is_action(std::string_view body, std::string_view action) {
    const std::string_view rest = event_member(body, R"("action":")");
    return rest.starts_with(action) && rest.substr(action.size()).starts_with('"');
}

class Verifier {
public:
    Verifier(const VerifyOptions& options, Lines& lines) : options_(options), lines_(lines) {}

    Verification run();

private:
    void line(std::string_view text);
    void broken(const SealedLine& one, std::uint64_t sequence);
    void count(const SealedLine& one, std::uint64_t sequence);
    void check_signature(const SealedLine& one, std::uint64_t sequence);
    void no_record(std::string_view text);
    void finish();
    void find(Damage damage, std::uint64_t sequence) {
        find({damage, lines_.path(), lines_.number(), sequence});
    }
    void find(Finding finding);

    struct Seen {
        ChainHash hash;
        std::size_t path = 0;  // of `paths_`
        std::uint64_t line = 0, sequence = 0;
    };

    const VerifyOptions& options_;
    Lines& lines_;
    Verification result_;
    std::deque<Seen> seen_;  // the last ones, oldest first
    std::vector<std::string> paths_;
    bool head_seen_ = false, ended_ = true;
};

void Verifier::find(Finding finding) {
    if (result_.findings.size() == max_findings) {
        ++result_.more_findings;
    } else {
        result_.findings.push_back(std::move(finding));
    }
}

/// The line does not have the form of a record. A failed write left it unfinished, or it was inserted.
void Verifier::no_record(std::string_view text) {
    constexpr std::string_view start = R"({"@timestamp":")";
    const bool unfinished = !text.empty() && (text.starts_with(start) || start.starts_with(text)) &&
                            text.find(integrity_head) == std::string_view::npos && !text.ends_with("}}");
    if (unfinished) {
        ++result_.fragments;
    } else {
        find(text.starts_with(start) ? Damage::changed : Damage::inserted, sequence_of(text));
    }
}

void Verifier::line(std::string_view text) {
    if (text.ends_with(R"(,"integrity":null})") && seen_.empty()) {
        result_.unsealed = true;
        ++result_.records;
        return;
    }
    const auto sealed = take_apart(text);
    if (!sealed) return no_record(text);
    const std::uint64_t sequence = sequence_of(sealed->body);
    ++result_.records;
    if (chain_hash(sealed->previous, sealed->body) != sealed->hash) {
        find(Damage::changed, sequence);
    } else if (sealed->previous == result_.head) {
        check_signature(*sealed, sequence);
    } else {
        broken(*sealed, sequence);
    }
    count(*sealed, sequence);
}

/// The record itself is whole, but it does not follow the record that it was written after.
void Verifier::broken(const SealedLine& one, std::uint64_t sequence) {
    if (seen_.empty()) return find(Damage::removed, sequence);  // the log began earlier
    const Seen before = seen_.back();
    for (std::size_t back = 1; back < seen_.size(); ++back) {
        const Seen& earlier = seen_[seen_.size() - 1 - back];
        if (earlier.hash != one.previous) continue;
        // The records between them were inserted, or moved from elsewhere.
        const Seen& first = seen_[seen_.size() - back];
        return find({before.sequence > sequence ? Damage::reordered : Damage::inserted, paths_[first.path],
                     first.line, first.sequence});
    }
    if (sequence == before.sequence + 1)  // the one before was changed, hash included
        return find({Damage::changed, paths_[before.path], before.line, before.sequence});
    find(sequence > before.sequence ? Damage::removed : Damage::reordered, sequence);
}

void Verifier::check_signature(const SealedLine& one, std::uint64_t sequence) {
    const bool closes = is_action(one.body, "run.end") || is_action(one.body, "checkpoint");
    if (!one.signature.empty()) ++result_.signatures;
    if (!options_.key || !closes) return;
    if (!options_.key->good(one.hash, one.signature)) find(Damage::bad_signature, sequence);
}

void Verifier::count(const SealedLine& one, std::uint64_t sequence) {
    const bool end = is_action(one.body, "run.end");
    if (ended_ || sequence == 1) ++result_.runs;
    if (end) ++result_.ended_runs;
    ended_ = end;
    result_.head = one.hash;
    head_seen_ = head_seen_ || (options_.head && *options_.head == one.hash);
    if (paths_.empty() || paths_.back() != lines_.path()) paths_.push_back(lines_.path());
    seen_.push_back({one.hash, paths_.size() - 1, lines_.number(), sequence});
    if (seen_.size() > window) seen_.pop_front();
}

void Verifier::finish() {
    result_.torn = lines_.torn();
    result_.fragments += lines_.torn_segments();
    // The log may go on behind the known head, because another run used the same file.
    if (options_.head && !head_seen_) find(Damage::cut_short, seen_.empty() ? 0 : seen_.back().sequence);
}

Verification Verifier::run() {
    for (Lines::Step step; (step = lines_.next()) != Lines::Step::end;) {
        if (step == Lines::Step::line) {
            line(lines_.text());
        } else {
            find(Damage::inserted, 0);
        }
    }
    finish();
    return std::move(result_);
}

std::string text_of(const Finding& finding) {
    std::string text = finding.path + ':' + std::to_string(finding.line) + ": ";
    text += finding.sequence != 0 ? "record " + std::to_string(finding.sequence) + ' ' : "this line ";
    switch (finding.damage) {
        case Damage::changed:
            return text + "was changed";
        case Damage::removed:
            return text + "follows records that were removed";
        case Damage::inserted:
            return text + "was inserted";
        case Damage::reordered:
            return text + "stands in another order than it was written";
        case Damage::cut_short:
            return text + "is the last one, and not the head that was given: cut short, or made anew";
        case Damage::bad_signature:
            return text + "is not signed by the key that was given";
    }
    return text;
}

std::string incomplete_because(const Verification& found) {
    std::string text;
    const auto add = [&text](const std::string& reason) { text += (text.empty() ? "" : "; ") + reason; };
    if (found.records == 0) add("it is empty");
    if (found.unsealed) add("it has records without a hash (an older version wrote them)");
    if (found.ended_runs < found.runs)
        add(plural(found.runs - found.ended_runs, "run") + " without an end on record");
    if (found.torn) add("the last line is unfinished");
    if (found.fragments > 0) add(plural(found.fragments, "line") + " unfinished in between");
    return text;
}

void write_json(std::ostream& out, const std::string& path, const Verification& found) {
    constexpr const char* words[] = {"whole", "tampered", "incomplete"};
    nlohmann::ordered_json findings = nlohmann::ordered_json::array();
    for (const Finding& one : found.findings)
        findings.push_back({{"damage", std::string(name(one.damage))},
                            {"file", one.path},
                            {"line", one.line},
                            {"sequence", one.sequence}});
    const nlohmann::ordered_json result = {{"file", path},
                                           {"result", words[found.status()]},
                                           {"records", found.records},
                                           {"runs", found.runs},
                                           {"signatures", found.signatures},
                                           {"head", "sha256:" + std::string(found.head.view())},
                                           {"findings", findings},
                                           {"more_findings", found.more_findings}};
    out << json_read::ascii_text(result, 2) << '\n';
}

void write_text(std::ostream& out, const std::string& path, const Verification& found) {
    for (const Finding& one : found.findings) out << terminal_safe(text_of(one)) << '\n';
    if (found.more_findings > 0) out << "and " << plural(found.more_findings, "more finding") << '\n';
    out << terminal_safe(path) << ": ";
    if (found.records == 0 && found.status() == 1) {
        out << "no line of it is a record of callgate: is it another file?\n";
        return;
    }
    if (found.status() == 1) out << "TAMPERED WITH: ";
    if (found.status() == 2)
        out << "incomplete: " << incomplete_because(found) << "; what is there is whole: ";
    if (found.status() == 0) out << "whole: ";
    out << plural(found.records, "record") << " of " << plural(found.runs, "run")
        << ", head sha256:" << found.head.view() << '\n';
}

}  // namespace

std::string_view name(Damage damage) {
    constexpr std::string_view words[] = {"changed",   "removed",   "inserted",
                                          "reordered", "cut_short", "bad_signature"};
    return words[static_cast<std::size_t>(damage)];
}

int Verification::status() const {
    if (!findings.empty()) return 1;
    return incomplete_because(*this).empty() ? 0 : 2;
}

Expected<Verification> verify_log(const std::string& path, const VerifyOptions& options) {
    auto lines = Lines::open(path);
    if (!lines) return Problem{path + ": " + lines.error().message()};
    return Verifier(options, *lines).run();
}

int verify(std::ostream& out, std::ostream& errors, const VerifyOptions& options) {
    const Expected<std::string> path = find_log(options.log);
    const auto found = path ? verify_log(*path, options) : Expected<Verification>(path.error());
    if (!found) {
        errors << terminal_safe(found.error().text) << '\n';
        return exit_wrong_use;
    }
    options.json ? write_json(out, *path, *found) : write_text(out, *path, *found);
    return found->status();
}

}  // namespace callgate::audit
