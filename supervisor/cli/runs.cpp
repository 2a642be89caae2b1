// `callgate ps`, `stop`, `grants`, `revoke`: running supervisors of this user, asked over their sockets.
#include <poll.h>

#include <cstdio>

#include "base/escape.hpp"
#include "base/json_read.hpp"
#include "base/json_writer.hpp"
#include "base/number.hpp"
#include "supervisor/approval/protocol/client.hpp"
#include "supervisor/approval/protocol/runtime_directory.hpp"
#include "supervisor/cli/failure.hpp"
#include "supervisor/cli/verbs.hpp"
#include "supervisor/host/host.hpp"

namespace callgate::cli {

namespace {

using approval::Client;
using namespace json_read;

constexpr int patience_ms = 5000;

Client require_run(const std::string& directory, const std::string& run) {
    if (run.find('/') == std::string::npos)
        if (auto client = Client::open(directory, run)) return std::move(*client);
    throw Failure("no run " + run + " answers; callgate ps lists those that do");
}

/// The answer of a run to a plain message; null if the run is gone.
json ask(Client& client, std::string_view type) {
    if (!client.send(approval::plain_line(type))) return nullptr;
    const auto answer = client.wait_for(type, patience_ms);
    return answer ? parse_object(answer->text) : json();
}

std::string command_of(const json& status) {
    std::string command;
    for (const std::string& one : texts(member(status, "command")))
        command += (command.empty() ? "" : " ") + shell_quote(one);
    return command;
}

std::string age(std::uint64_t milliseconds) {
    const std::uint64_t seconds = milliseconds / 1000;
    if (seconds < 120) return std::to_string(seconds) + "s";
    if (seconds < 7200) return std::to_string(seconds / 60) + "m";
    return std::to_string(seconds / 3600) + "h";
}

std::string column(std::string text, std::size_t width) {
    if (text.size() < width) text.resize(width, ' ');
    return text + ' ';
}

std::vector<json> all_status(const std::string& directory) {
    std::vector<json> all;
    for (const std::string& run : approval::runs_at(directory)) {
        auto client = Client::open(directory, run);
        if (!client) continue;  // it has just ended
        json status = ask(*client, "status");
        if (status.is_object()) all.push_back(std::move(status));
    }
    return all;
}

std::string grant_line(const std::string& run, const json& grant) {
    return column(run, 8) + column(std::to_string(number(member(grant, "grant"))), 5) +
           column(text(member(grant, "action")), 5) +
           column(std::to_string(number(member(grant, "used"))) + "x", 6) +
           terminal_safe(text(member(grant, "text"))) + "  by " +
           terminal_safe(text(member(grant, "program"))) + "  (" +
           terminal_safe(text(member(grant, "channel"))) + ", uid " +
           std::to_string(number(member(grant, "uid"))) + ", pid " +
           std::to_string(number(member(grant, "pid"))) + ")\n";
}

}  // namespace

int ps(const Arguments& arguments) {
    const std::vector<json> runs = all_status(find_places().runtime);
    if (arguments.has("json")) {
        print(ascii_text(json(runs)) + "\n");
        return 0;
    }
    if (runs.empty()) return 0;
    print("RUN      PID     AGE   WAITING ALLOWED DENIED COMMAND\n");
    for (const json& run : runs)
        print(column(text(member(run, "run")), 8) + column(std::to_string(number(member(run, "pid"))), 7) +
              column(age(number(member(run, "age_ms"))), 5) +
              column(std::to_string(number(member(run, "questions"))), 7) +
              column(std::to_string(number(member(run, "allowed"))), 7) +
              column(std::to_string(number(member(run, "denied"))), 6) + terminal_safe(command_of(run)) +
              "\n");
    return 0;
}

int stop(const Arguments& arguments) {
    Client client = require_run(find_places().runtime, arguments.rest().front());
    if (!client.send(approval::plain_line("stop"))) throw Failure("run " + client.run() + " has just ended");
    // It ends its tree first; then its socket closes.
    static_cast<void>(client.wait_for("nothing", 60'000));
    return 0;
}

int grants(const Arguments& arguments) {
    const std::string directory = find_places().runtime;
    const std::vector<std::string> runs =
        arguments.rest().empty() ? approval::runs_at(directory) : std::vector{arguments.rest().front()};
    Buffer out;
    JsonWriter objects(out);
    objects.begin_list();
    for (const std::string& run : runs) {
        auto client = Client::open(directory, run);
        if (!client && arguments.rest().empty()) continue;
        if (!client) client = require_run(directory, run);
        const json answer = ask(*client, "grants");
        if (!answer.is_object() || !answer.contains("grants")) continue;
        for (json grant : answer["grants"]) {
            grant["run"] = run;
            if (arguments.has("json"))
                objects.raw(ascii_text(grant));
            else
                print(grant_line(run, grant));
        }
    }
    objects.end_list();
    if (arguments.has("json")) print(std::string(out.view()) + "\n");
    return 0;
}

std::vector<std::string> grant_numbers(const std::string& run) {
    std::vector<std::string> numbers;
    if (run.find('/') != std::string::npos) return numbers;
    auto client = Client::open(find_places().runtime, run);
    const json answer = client ? ask(*client, "grants") : json();
    if (!answer.is_object() || !answer.contains("grants")) return numbers;
    for (const json& grant : answer["grants"])
        numbers.push_back(std::to_string(number(member(grant, "grant"))));
    return numbers;
}

int revoke(const Arguments& arguments) {
    const std::string& text = arguments.rest()[1];
    const auto number = parse_number<std::uint64_t>(text);
    if (!number || *number == 0)
        throw Failure(text + ": expected the number of a grant; callgate grants lists them");
    Client client = require_run(find_places().runtime, arguments.rest().front());
    if (!client.send(approval::plain_line("revoke", "grant", *number)))
        throw Failure("run " + client.run() + " has just ended");
    const auto answer = client.wait_for("ack", patience_ms);
    if (answer && answer->applied) return 0;
    say(answer ? "grant " + text + ": " + answer->why : "run " + client.run() + " has ended");
    return exit_finding;
}

}  // namespace callgate::cli
