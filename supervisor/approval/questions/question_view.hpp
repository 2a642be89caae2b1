// A question as an approver has it, read from the protocol's `ask` message.
//
// The target chooses its texts: `prompt.hpp` makes them safe for a terminal, `proposal.hpp` for a rule file.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "supervisor/approval/questions/question.hpp"

namespace callgate::approval {

struct QuestionView {
    std::string run;
    std::uint64_t id = 0;
    std::string key;
    std::string operation;
    std::vector<std::string> operations;
    std::string kind;    // "file", "internet", "unix"
    std::string object;  // path, address with port, or name: bytes
    std::string host;
    std::string second_path;
    std::string source;  // hard links only
    bool exists = false, directory = false;
    std::optional<std::uint64_t> size;
    std::vector<std::string> arguments;  // execute only
    std::vector<std::string> changes;    // of settings, with old and new values
    std::string asked_as;
    pid_t process = 0;
    std::string program;
    std::vector<std::string> argv;
    std::vector<Process> ancestors;
    std::string rule, reason;
    std::vector<Scope> scopes;
    std::string tree, widest;  // the directories that `tree` can reach; `widest` "": only the first
    bool offers_writing = false;
    std::uint64_t count = 0;
    bool any_program = false;      // an answer for the run is for each program of it
    bool again = false;            // the same was denied once before
    std::int64_t deadline_ns = 0;  // by the client's clock
    std::string message;           // the whole `ask`, as it came

    [[nodiscard]] bool offers(Scope scope) const;
};

/// A message of a supervisor, as far as a client needs it.
struct FromRun {
    std::string type;  // "hello", "ask", ...; "" if it is no message
    std::string run;
    bool token_required = false;
    std::uint64_t id = 0;
    bool applied = false;
    std::string why;
    std::uint64_t count = 0;
    std::int64_t deadline_ms = 0;
    std::optional<QuestionView> ask;
    std::string text;  // the whole line
};
[[nodiscard]] FromRun parse_from_run(std::string_view line, std::int64_t now_ns);

/// How far an answer of scope `tree` reaches, if not the nearest directory and what was asked about.
struct Width {
    std::string tree{};
    bool reads_and_writes = false;
};
/// `{"v":1,"type":"decision",...}` with its newline.
[[nodiscard]] std::string decision_line(const QuestionView& shown, std::string_view verdict, Scope scope,
                                        std::string_view reason = {}, const Width& width = {});
/// The answer of a deciding program: `{"verdict":"allow","scope":"once","reason":"..."}`. An answer that is
/// not understood denies, and `problem` says why.
struct ProgramAnswer {
    std::string verdict = "deny";
    Scope scope = Scope::once;
    std::string reason, problem;
};
[[nodiscard]] ProgramAnswer parse_program_answer(const std::string& text);

[[nodiscard]] std::string auth_line(std::string_view token);
[[nodiscard]] std::string plain_line(std::string_view type, std::string_view number_name = {},
                                     std::uint64_t number = 0);

}  // namespace callgate::approval
