#include "supervisor/audit/verbs/logs.hpp"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <ostream>
#include <utility>

#include "base/escape.hpp"
#include "base/json_read.hpp"
#include "supervisor/audit/read/reader.hpp"
#include "supervisor/audit/verbs/show.hpp"
#include "supervisor/audit/verbs/show_rows.hpp"
#include "supervisor/audit/verbs/table.hpp"

namespace callgate::audit {

namespace {

namespace fs = std::filesystem;

constexpr std::string_view suffix = ".jsonl";

/// The facts from the first and the last record of a log.
struct LogSummary {
    std::string run, time, outcome;
    std::vector<std::string> command;
    Counts counts;
    bool ended = false;
};

/// The log's last segment.
std::string last_segment(const std::string& first) {
    std::string path = first;
    std::error_code ignored;
    for (unsigned number = 2; fs::exists(segment_path(first, number), ignored); ++number) {
        path = segment_path(first, number);
    }
    return path;
}

LogSummary summarise(const std::string& path) {
    LogSummary log{
        .run = run_of(path), .time = "", .outcome = "", .command = {}, .counts = {}, .ended = false};
    if (auto reader = Reader::open(path)) {
        if (reader->next() == Reader::Step::record) {
            log.time = reader->entry().time;
            log.command = reader->entry().command;
        }
    }
    const std::optional<Entry> last = last_record(last_segment(path));
    if (!last || last->action != "run.end") return log;
    log.ended = true;
    log.outcome = last->outcome + (last->exit_code ? ' ' + std::to_string(*last->exit_code) : "");
    log.counts = last->counts.value_or(Counts{});
    return log;
}

std::string count_text(const Counts& counts) {
    std::string text;
    const auto add = [&text](std::uint64_t count, const char* word) {
        if (count > 0) text += (text.empty() ? "" : ", ") + std::to_string(count) + " " + word;
    };
    add(counts.deny, "denied");
    add(counts.ask, "asked");
    add(counts.kill, "killed");
    add(counts.would_deny + counts.would_ask + counts.would_kill, "would be denied");
    add(counts.allow, "allowed");
    return text.empty() ? "nothing contested" : text;
}

void write_json(std::ostream& out, const std::string& path, const LogSummary& log) {
    nlohmann::ordered_json record = {{"run", log.run},     {"file", path},
                                     {"time", log.time},   {"command", log.command},
                                     {"ended", log.ended}, {"outcome", log.outcome}};
    for (const auto& [name, place] : count_members) record["counts"][name] = log.counts.*place;
    out << json_read::ascii_text(record) << '\n';
}

}  // namespace

std::string run_of(const std::string& path) {
    const std::string name = fs::path(path).filename().string();
    const std::size_t dash = name.find('-');
    if (dash == std::string::npos || !name.ends_with(suffix)) return {};
    return name.substr(dash + 1, name.size() - suffix.size() - dash - 1);
}

std::vector<std::string> logs_in(const std::string& directory) {
    // Names begin with the second in which the run started. Within one second the file's time decides.
    std::vector<std::pair<std::pair<std::string, fs::file_time_type>, std::string>> found;
    std::error_code error;
    for (fs::directory_iterator at(directory, error), end; !error && at != end; at.increment(error)) {
        const std::string name = at->path().filename().string();
        std::error_code ignored;
        if (!name.ends_with(suffix) || is_later_segment(name) || !at->is_regular_file(ignored)) continue;
        found.push_back(
            {{name.substr(0, name.find('-')), at->last_write_time(ignored)}, at->path().string()});
    }
    std::sort(found.begin(), found.end());
    std::vector<std::string> paths;
    paths.reserve(found.size());
    for (auto& [order, path] : found) paths.push_back(std::move(path));
    return paths;
}

Expected<std::string> find_log(const LogChoice& choice) {
    const std::vector<std::string> logs =
        choice.log.find('/') == std::string::npos ? logs_in(choice.state) : std::vector<std::string>();
    for (auto path = logs.rbegin(); path != logs.rend(); ++path) {
        if (choice.log.empty() || run_of(*path) == choice.log || fs::path(*path).filename() == choice.log)
            return *path;
    }
    std::error_code ignored;
    if (!choice.log.empty() && fs::exists(choice.log, ignored)) return choice.log;
    if (choice.log.empty()) return Problem{"no audit log in " + choice.state};
    return Problem{"no run and no file '" + choice.log + "' (callgate audit ls lists the runs)"};
}

int list(std::ostream& out, std::ostream&, const ListOptions& options) {
    std::vector<std::string> logs = logs_in(options.state);
    std::ranges::reverse(logs);
    if (options.json) {
        for (const std::string& path : logs) write_json(out, path, summarise(path));
        return 0;
    }
    if (logs.empty()) return 0;
    Table table(out, {"RUN", "TIME", "OUTCOME", "CALLS", "COMMAND"}, false);
    for (const std::string& path : logs) {
        const LogSummary log = summarise(path);
        const std::string command = command_text(log.command);
        table.add({{log.run.empty() ? path : log.run},
                   {log.time.substr(0, 19) + (log.time.empty() ? "-" : "Z")},
                   {log.ended ? log.outcome : "no end on record"},
                   {log.ended ? count_text(log.counts) : "-"},
                   {command.empty() ? "-" : command}});
    }
    return 0;
}

int last(std::ostream& out, std::ostream& errors, const std::string& state) {
    const Expected<std::string> path = find_log({.state = state, .log = ""});
    if (!path) {
        errors << terminal_safe(path.error().text) << '\n';
        return exit_wrong_use;
    }
    out << *path << '\n';
    return 0;
}

}  // namespace callgate::audit
