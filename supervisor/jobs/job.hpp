// A job is described by one JSON object (docs/executors.md, docs/exec.schema.json).
//
// The object is not trusted. Every member is checked by type and range before anything starts; unknown and
// duplicate members are refused. Text within bounds parses in time proportional to its length.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "rules/model/limits.hpp"

namespace callgate::jobs {

/// The text of a job has at most this many bytes.
inline constexpr std::size_t max_job = std::size_t{256} << 20U;
/// So many bytes of each output are kept, by default and at most.
inline constexpr std::uint64_t default_output = std::uint64_t{10} << 20U,
                               max_output = std::uint64_t{256} << 20U;

struct Job {
    /// The id as JSON, so that a number comes back as a number: `7`, `"a"`; "" where there is none.
    std::string id;
    std::vector<std::string> command;  // argv
    /// Code that is too long for an argument; the command reads it from `script_descriptor`.
    std::string script;
    std::string workdir, cwd;  // "" where it is not stated
    rules::Limits limits;
    std::optional<std::chrono::milliseconds> grace;
    std::string rules;  // JSON text of a rule set, "" none
    std::vector<std::string> profiles;
    /// Options of `callgate run` that say what is allowed or denied: {"read", "/srv"}.
    std::vector<std::pair<std::string_view, std::string>> allowances;
    std::string input;
    /// A variable without a value passes on the caller's.
    std::vector<std::pair<std::string, std::optional<std::string>>> environment;
    std::optional<std::uint64_t> max_output;
    bool merge_stderr = false;  // what is written to both comes as one, in order
    bool stream = false;        // of a server: output also comes in pieces, as it is written
    bool stream_only = false;   // and the answer does not have it again
    bool stdin_open = false;    // of a server: behind `input`, stdin waits for more
};

/// Ends the job with this id. `now` leaves it no time after SIGTERM.
struct Cancel {
    std::string id;
    bool now = false;
};

/// More stdin for the job with this id. `last`: stdin ends behind it.
struct Input {
    std::string id;
    std::string own_id;  // repeated by the answer; "" where there is none
    std::string bytes;
    bool last = false;
};

/// An invalid request: `why` names the member, the expected value, and the nearest known word.
struct Fault {
    std::string id;  // where one could be read
    std::string why;
};

/// The wish that the output of a job that streams is not read, or is read again. It has no answer.
struct Pause {
    std::string id;
    bool on = false;
};

using Request = std::variant<Fault, Job, Cancel, Input, Pause>;

enum class Form : std::uint8_t {
    once,    // one job; an id is given back
    served,  // one of many: an id is needed, and jobs can be cancelled and get input
};

[[nodiscard]] Request parse_request(std::string_view text, Form form);

/// A client's job as a line for a server, which knows it by a number.
struct Passed {
    std::string line;
    std::string id;  // the client's, as JSON; "" where there is none
    bool stream = false, stdin_open = false;
};
[[nodiscard]] std::variant<Fault, Passed> pass_on(std::string_view text, std::uint64_t number);
/// A client's input for the job that the server knows by this number. Its text does not name the job. `own`
/// becomes its id.
[[nodiscard]] std::variant<Fault, std::string> pass_input_on(std::string_view text, std::uint64_t number,
                                                             std::uint64_t own);

/// The members that a job can have. Suggestions come from here, and the schema must name each.
[[nodiscard]] std::span<const std::string_view> known_members();

}  // namespace callgate::jobs
