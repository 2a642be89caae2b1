#include "supervisor/audit/report/collect.hpp"

#include <ostream>

#include "base/json_read.hpp"
#include "supervisor/audit/verbs/show_rows.hpp"
#include "supervisor/audit/write/format.hpp"
#include "supervisor/audit/write/outcome.hpp"

namespace callgate::audit::report {

namespace {

constexpr std::uint64_t max_bad_said = 20;

/// The member `hash` at the end of the line (chain.hpp); "" if the log has no chain.
std::string_view hash_of(std::string_view line) {
    constexpr std::string_view before = R"("hash":")";
    const std::size_t at = line.rfind(before);
    if (at == std::string_view::npos) return {};
    line.remove_prefix(at + before.size());
    return line.size() < 64 ? std::string_view() : line.substr(0, 64);
}

/// Returns "?" for anything that is not a verdict, because the log may hold any text.
std::string known_verdict(const std::string& verdict) {
    for (const char* const one : {"allow", "ask", "deny", "kill"})
        if (verdict == one) return verdict;
    return "?";
}

class Collector {
public:
    Collector(Contents& contents, Reader& reader) : contents_(contents), reader_(reader) {}

    void take();

private:
    std::uint32_t run_number();
    void begin_run();
    void end_run();
    void take_decision();

    Contents& contents_;
    Reader& reader_;
    std::int64_t now_ = 0;  // of the last record that had a time
    std::map<std::string, std::uint32_t> run_numbers_;
};

/// If the log lacks the run's start (it was cut, for example), only the name of the run is known.
std::uint32_t Collector::run_number() {
    const Entry& entry = reader_.entry();
    if (const auto known = run_numbers_.find(entry.run); known != run_numbers_.end()) return known->second;
    if (contents_.runs.size() == Contents::max_runs) {
        ++contents_.runs_cut;
        return static_cast<std::uint32_t>(Contents::max_runs - 1);
    }
    const auto number = static_cast<std::uint32_t>(contents_.runs.size());
    run_numbers_.emplace(entry.run, number);
    Run run;
    run.name = entry.run;
    run.mode = entry.mode;
    contents_.runs.push_back(std::move(run));
    return number;
}

void Collector::begin_run() {
    using namespace json_read;
    Run& run = contents_.runs[run_number()];
    const Entry& entry = reader_.entry();
    if (run.started != 0 || run.name != entry.run) return;
    const json record = parse_object(reader_.line());
    const json& ours = member(record, "callgate");
    run.started = now_;
    run.command = entry.command;
    run.profiles = entry.profiles;
    run.workdir = entry.workdir;
    run.version = text(member(ours, "version"));
    run.kernel = text(member(ours, "kernel"));
    run.rules_sha256 = text(member(ours, "rules_sha256"));
    run.landlock_abi = number(member(ours, "landlock_abi"));
    run.degraded = texts(member(ours, "degraded"));
}

void Collector::end_run() {
    using namespace json_read;
    Run& run = contents_.runs[run_number()];
    const Entry& entry = reader_.entry();
    if (run.name != entry.run) return;
    run.ended = now_;
    run.outcome = entry.outcome;
    run.exit_code = entry.exit_code;
    run.signal = entry.signal;
    const json record = parse_object(reader_.line());
    run.duration_ms = number(member(record, "callgate", "duration_ms"));
}

void Collector::take_decision() {
    const Entry& entry = reader_.entry();
    const Outcome outcome = outcome_of(entry);
    const std::uint32_t process = contents_.processes.add(entry, run_number(), now_, outcome);
    const std::uint32_t object = contents_.objects.add(entry, outcome);
    contents_.calls.add(entry, outcome, now_, process, object);
    contents_.times.add(now_, outcome, entry.count);
    count(contents_.calls_by_outcome, outcome, entry.count);
    count(contents_.verdicts[known_verdict(entry.verdict)], outcome, entry.count);
    const auto rule = contents_.strings.add(entry.rule);
    const bool room =
        rule && (contents_.rules.size() < Contents::max_rules || contents_.rules.contains(*rule));
    if (room)
        count(contents_.rules[*rule], outcome, entry.count);
    else
        contents_.rules_cut += entry.count;
    if (outcome != Outcome::allowed) contents_.denials.add(entry, outcome, now_, object, reader_.line());
}

void Collector::take() {
    const Entry& entry = reader_.entry();
    ++contents_.records;
    contents_.head = hash_of(reader_.line());
    now_ = microseconds(entry.time).value_or(now_);
    if (entry.decision()) return take_decision();
    if (entry.action == "run.start") begin_run();
    if (entry.action == "run.end") end_run();
    contents_.calls.add_event(entry, now_);
}

}  // namespace

void collect(Contents& contents, Reader& reader, std::ostream& errors) {
    contents.file = reader.path();
    Collector collector(contents, reader);
    BadLines bad(errors, max_bad_said);
    for (Reader::Step step; (step = reader.next()) != Reader::Step::end;) {
        if (step == Reader::Step::record)
            collector.take();
        else
            bad.add(reader);
    }
    static_cast<void>(bad.finish());
    contents.bad_lines = bad.count();
    contents.torn = reader.torn();
    say_torn(errors, reader);
    contents.processes.join();
}

std::optional<std::int64_t> microseconds(std::string_view time) {
    const std::optional<std::timespec> when = read_timestamp(time);
    if (!when) return std::nullopt;
    return std::int64_t{when->tv_sec} * 1'000'000 + when->tv_nsec / 1000;
}

std::string time_text(std::int64_t value) {
    const std::time_t seconds = value / 1'000'000;
    std::tm parts{};
    char text[64] = {};
    if (::gmtime_r(&seconds, &parts) == nullptr) return "?";
    return {text, std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts)};
}

bool ended_well(const Run& run) {
    return run.outcome == callgate::name(callgate::Outcome::exited) && run.exit_code == 0;
}

std::string outcome_text(const Run& run) {
    if (run.outcome.empty()) return "no end on record";
    if (run.signal) return run.outcome + " (signal " + std::to_string(*run.signal) + ')';
    return run.exit_code ? run.outcome + ' ' + std::to_string(*run.exit_code) : run.outcome;
}

}  // namespace callgate::audit::report
