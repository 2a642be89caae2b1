#include "supervisor/jobs/job.hpp"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "base/escape.hpp"
#include "base/words.hpp"
#include "rules/load/loader.hpp"
#include "supervisor/jobs/language.hpp"
#include "supervisor/jobs/strict_json.hpp"

namespace callgate::jobs {

namespace {

using nlohmann::json;
using std::chrono::milliseconds;

constexpr std::size_t max_id = 256;
constexpr std::int64_t longest_ms = std::int64_t{10} * 366 * 24 * 3600 * 1000;

[[noreturn]] void expected(const std::string& member, std::string_view what, const json& value) {
    throw InvalidRequest{member + ": expected " + std::string(what) + "; it is " + described(value)};
}

std::string near(std::string_view word, std::span<const std::string_view> known) {
    const std::optional<std::string> found = rules::nearest(word, known);
    return found ? "; did you mean " + *found + "?" : "; known: " + joined(known, ", ");
}

/// No argument, name or path holds a NUL: it would end there.
std::string text(const std::string& member, const json& value, std::string_view what) {
    if (!value.is_string()) expected(member, what, value);
    std::string read = value.get<std::string>();
    if (read.find('\0') != std::string::npos)
        throw InvalidRequest{member + ": holds a NUL character (U+0000)"};
    return read;
}

std::string path(const std::string& member, const json& value) {
    std::string read = text(member, value, "a path");
    if (read.empty()) throw InvalidRequest{member + ": expected a path; it is empty"};
    return read;
}

std::vector<std::string> texts(const std::string& member, const json& value, std::string_view what) {
    if (!value.is_array()) expected(member, "a list of " + std::string(what), value);
    std::vector<std::string> all;
    for (const json& one : value)
        all.push_back(text(member + "[" + std::to_string(all.size()) + "]", one, what));
    return all;
}

milliseconds duration(const std::string& member, const json& value) {
    constexpr std::string_view what = "seconds above 0, or a text such as \"30s\" or \"2m\"";
    std::optional<milliseconds> read;
    if (value.is_string()) {
        read = rules::parse_duration(value.get<std::string>());
    } else if (value.is_number()) {
        // Rounded up by hand: std::ceil alone would have every start of callgate load libm.
        const double exact = value.get<double>() * 1000;
        if (exact > 0 && exact <= static_cast<double>(longest_ms)) {
            const auto whole = static_cast<std::int64_t>(exact);
            read = milliseconds(static_cast<double>(whole) < exact ? whole + 1 : whole);
        }
    }
    if (!read || read->count() <= 0) expected(member, what, value);
    return *read;
}

std::uint64_t size(const std::string& member, const json& value) {
    std::optional<std::uint64_t> read;
    if (value.is_number_unsigned()) read = value.get<std::uint64_t>();
    if (value.is_string()) read = rules::parse_size(value.get<std::string>());
    if (!read || *read == 0) expected(member, "bytes above 0, or a text such as \"512M\"", value);
    return *read;
}

std::uint64_t count(const std::string& member, const json& value) {
    if (!value.is_number_unsigned() || value.get<std::uint64_t>() == 0)
        expected(member, "a whole number above 0", value);
    return value.get<std::uint64_t>();
}

bool truth(const std::string& member, const json& value) {
    if (!value.is_boolean()) expected(member, "true or false", value);
    return value.get<bool>();
}

std::string id(const json& value) {
    if (value.is_number_integer()) return value.dump();
    if (!value.is_string() || value.get_ref<const std::string&>().size() > max_id)
        expected("id", "a text of at most 256 bytes or a whole number", value);
    return json_string(value.get_ref<const std::string&>());
}

std::vector<std::string> command(const json& value) {
    std::vector<std::string> all = texts("command", value, "texts");
    if (all.empty() || all[0].empty())
        throw InvalidRequest{"command: expected a program and its arguments; it names none"};
    return all;
}

std::string rule_set(const json& value) {
    if (!value.is_object()) expected("rules", "a rule set (an object with \"version\" and \"rules\")", value);
    return value.dump();
}

std::vector<std::string> profiles(const json& value) {
    std::vector<std::string> all =
        value.is_string() ? std::vector{text("profiles", value, "")} : texts("profiles", value, "names");
    if (all.empty() || std::ranges::find(all, "") != all.end())
        throw InvalidRequest{"profiles: expected names such as [\"python\"]"};
    return all;
}

void add_environment(Job& job, const json& value) {
    if (!value.is_object()) expected("env", "an object of names and texts", value);
    for (const auto& [name, one] : value.items()) {
        const std::string where = "env." + name;
        if (name.empty() || name.find('=') != std::string::npos || name.find('\0') != std::string::npos)
            throw InvalidRequest{"env: " + json_string(name) + " cannot be a variable's name"};
        if (one.is_null())
            job.environment.emplace_back(name, std::nullopt);
        else
            job.environment.emplace_back(name,
                                         text(where, one, "a text, or null for the caller's own value"));
    }
}

void add_allowances(Job& job, std::string_view option, const json& value) {
    const std::string member(option);
    for (std::string& one : texts(member, value, "texts")) {
        if (one.empty()) throw InvalidRequest{member + ": holds an empty text"};
        job.allowances.emplace_back(option, std::move(one));
    }
}

std::string decoded(const std::string& member, const json& value) {
    std::optional<std::string> bytes;
    if (value.is_string()) bytes = decode_base64(value.get_ref<const std::string&>());
    if (!bytes) throw InvalidRequest{member + ": expected base64"};
    return std::move(*bytes);
}

struct Member {
    std::string_view name;
    void (*read)(Job& job, const json& value);
};

// `language` and `code` belong together: they are read at the end.
constexpr Member members[] = {
    {"id", [](Job& job, const json& value) { job.id = id(value); }},
    {"language", [](Job&, const json&) {}},
    {"code", [](Job&, const json&) {}},
    {"command", [](Job& job, const json& value) { job.command = command(value); }},
    {"workdir", [](Job& job, const json& value) { job.workdir = path("workdir", value); }},
    {"scratch", [](Job& job, const json& value) { job.workdir = path("scratch", value); }},
    {"cwd", [](Job& job, const json& value) { job.cwd = path("cwd", value); }},
    {"stdin",
     [](Job& job, const json& value) {
         if (!value.is_string()) expected("stdin", "a text (bytes: stdin_base64)", value);
         job.input = value.get<std::string>();
     }},
    {"stdin_base64", [](Job& job, const json& value) { job.input = decoded("stdin_base64", value); }},
    {"env", add_environment},
    {"rules", [](Job& job, const json& value) { job.rules = rule_set(value); }},
    {"profiles", [](Job& job, const json& value) { job.profiles = profiles(value); }},
    {"read", [](Job& job, const json& value) { add_allowances(job, "read", value); }},
    {"write", [](Job& job, const json& value) { add_allowances(job, "write", value); }},
    {"execute", [](Job& job, const json& value) { add_allowances(job, "execute", value); }},
    {"deny", [](Job& job, const json& value) { add_allowances(job, "deny", value); }},
    {"connect", [](Job& job, const json& value) { add_allowances(job, "connect", value); }},
    {"bind", [](Job& job, const json& value) { add_allowances(job, "bind", value); }},
    {"timeout", [](Job& job, const json& value) { job.limits.wall = duration("timeout", value); }},
    {"idle_timeout", [](Job& job, const json& value) { job.limits.idle = duration("idle_timeout", value); }},
    {"grace", [](Job& job, const json& value) { job.grace = duration("grace", value); }},
    {"memory", [](Job& job, const json& value) { job.limits.memory = size("memory", value); }},
    {"processes", [](Job& job, const json& value) { job.limits.processes = count("processes", value); }},
    {"cpu", [](Job& job, const json& value) { job.limits.cpu = duration("cpu", value); }},
    {"disk", [](Job& job, const json& value) { job.limits.disk = size("disk", value); }},
    {"open_files", [](Job& job, const json& value) { job.limits.open_files = count("open_files", value); }},
    {"file_size", [](Job& job, const json& value) { job.limits.file_size = size("file_size", value); }},
    {"max_output",
     [](Job& job, const json& value) {
         job.max_output = size("max_output", value);
         if (*job.max_output > max_output) expected("max_output", "at most 256M", value);
     }},
    {"merge_stderr", [](Job& job, const json& value) { job.merge_stderr = truth("merge_stderr", value); }},
    {"stream",
     [](Job& job, const json& value) {
         job.stream_only = value == "only";
         job.stream = job.stream_only || truth("stream", value);
     }},
    {"stdin_open", [](Job& job, const json& value) { job.stdin_open = truth("stdin_open", value); }},
};

constexpr auto member_names = [] {
    std::array<std::string_view, std::size(members)> names;
    for (std::size_t at = 0; at < names.size(); ++at) names[at] = members[at].name;
    return names;
}();

void exclude(const json& object, const char* one, const char* other) {
    if (object.contains(one) && object.contains(other))
        throw InvalidRequest{std::string(one) + ": " + other + " is given, too; leave out one of them"};
}

void read_code(Job& job, const json& object) {
    exclude(object, "command", "code");
    exclude(object, "command", "language");
    if (object.contains("command")) return;
    if (!object.contains("code"))
        throw InvalidRequest{"code: is missing; expected the code to run, or a command"};
    std::string language = "python";
    if (object.contains("language")) language = text("language", object["language"], "a text");
    if (std::ranges::find(languages(), language) == languages().end())
        throw InvalidRequest{"language: " + json_string(language) + " is unknown" +
                             near(language, languages())};
    Program made = program(language, text("code", object["code"], "a text"));
    job.command = std::move(made.command);
    job.script = std::move(made.script);
}

Job read_job(const json& object) {
    Job job;
    for (const auto& [name, value] : object.items()) {
        const auto* const found = std::ranges::find(members, name, &Member::name);
        if (found == std::end(members))
            throw InvalidRequest{"unknown member " + json_string(name) + near(name, member_names)};
        found->read(job, value);
    }
    exclude(object, "workdir", "scratch");
    exclude(object, "stdin", "stdin_base64");
    read_code(job, object);
    return job;
}

/// {"WORD": ID, "FLAG": true}
template <typename Order>
Order read_order(const json& object, std::string_view word, std::string_view flag, bool Order::*set) {
    const std::string_view known[] = {word, flag};
    Order order;
    for (const auto& [name, value] : object.items()) {
        if (name == word)
            order.id = id(value);
        else if (name == flag)
            order.*set = truth(name, value);
        else
            throw InvalidRequest{"unknown member " + json_string(name) + near(name, known)};
    }
    return order;
}

Input read_input(const json& object) {
    constexpr std::string_view known[] = {"input", "id", "text", "base64", "end"};
    exclude(object, "text", "base64");
    Input input;
    for (const auto& [name, value] : object.items()) {
        if (name == "input") {
            input.id = id(value);
        } else if (name == "id") {
            input.own_id = id(value);
        } else if (name == "text") {
            if (!value.is_string()) expected("text", "a text (bytes: base64)", value);
            input.bytes = value.get<std::string>();
        } else if (name == "base64") {
            input.bytes = decoded("base64", value);
        } else if (name == "end") {
            input.last = truth("end", value);
        } else {
            throw InvalidRequest{"unknown member " + json_string(name) + near(name, known)};
        }
    }
    if (input.bytes.empty() && !input.last)
        throw InvalidRequest{"text: is missing or empty; expected text, base64 or \"end\":true"};
    return input;
}

}  // namespace

std::span<const std::string_view> known_members() { return member_names; }

Request parse_request(std::string_view text, Form form) {
    Fault fault;
    try {
        if (text.size() > max_job) throw InvalidRequest{"the job is longer than 256 MiB"};
        const json object = parse_strictly(text);
        if (object.contains("id")) fault.id = id(object["id"]);
        if (form == Form::served && object.contains("cancel"))
            return read_order(object, "cancel", "now", &Cancel::now);
        if (form == Form::served && object.contains("input")) return read_input(object);
        if (form == Form::served && object.contains("pause"))
            return read_order(object, "pause", "on", &Pause::on);
        Job job = read_job(object);
        if (form == Form::served && job.id.empty())
            throw InvalidRequest{
                "id: is missing; expected a text or a whole number, which the answer repeats"};
        if (form == Form::once && job.stream)
            throw InvalidRequest{"stream: one job has one answer; it is for callgate exec --serve"};
        if (form == Form::once && job.stdin_open)
            throw InvalidRequest{"stdin_open: input comes in further lines; it is for callgate exec --serve"};
        return job;
    } catch (const InvalidRequest& wrong) {
        fault.why = wrong.why;
    }
    return fault;
}

std::variant<Fault, Passed> pass_on(std::string_view text, std::uint64_t number) {
    Fault fault;
    try {
        json object = parse_strictly(text);
        if (object.contains("id")) fault.id = id(object["id"]);
        const Job job = read_job(object);
        object["id"] = number;
        return Passed{object.dump() + '\n', fault.id, job.stream, job.stdin_open};
    } catch (const InvalidRequest& wrong) {
        fault.why = wrong.why;
    }
    return fault;
}

std::variant<Fault, std::string> pass_input_on(std::string_view text, std::uint64_t number,
                                               std::uint64_t own) {
    try {
        json object = parse_strictly(text);
        if (object.contains("input")) throw InvalidRequest{"input: the path names the job"};
        object["input"] = number;
        object["id"] = own;
        static_cast<void>(read_input(object));
        return object.dump() + '\n';
    } catch (const InvalidRequest& wrong) {
        return Fault{{}, wrong.why};
    }
}

}  // namespace callgate::jobs
