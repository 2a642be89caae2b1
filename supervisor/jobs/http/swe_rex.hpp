// SWE-ReX's server interface: each request is one job, or input to the job of its session.
//
// The sender controls every member, names of sessions and ids of requests. A program inside the job reads
// them (rex_program.hpp). Here only `session` is read. What the job prints is an answer for its own client
// alone, and is parsed as JSON before it is passed on.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace callgate::jobs::http {

struct RexAnswer {
    int status = 200;
    std::string body;
    std::string_view type = "application/json";
};

/// A request of SWE-ReX's or E2B's that is answered once. Each client that sent it with the same X-Request-ID
/// gets that answer.
struct RexCall {
    std::vector<std::uint64_t> clients;  // connections that wait
    std::string key;                     // path and X-Request-ID; "" where it has none
    bool done = false, e2b = false;
    bool stream = false;     // of E2B: its error is the last message of a stream
    std::uint64_t cell = 0;  // of E2B: the number of a cell, whose lines are passed on as they come
    RexAnswer answer;
};

struct RexSession {
    std::uint64_t job = 0;
    std::deque<std::shared_ptr<RexCall>> calls;     // in the order in which the job answers them
    std::vector<std::shared_ptr<RexCall>> closers;  // wait for its end
    std::string output;                             // of its program: the beginning of a line
    std::string context;                            // of E2B: its id
    std::string shown;                              // of E2B: what its client is told of it, as JSON
    bool over = false;                              // its output is not looked at any more
};

[[nodiscard]] bool is_rex_path(std::string_view path);

/// A job for the request's body. `type` is its Content-Type. A session's job reads actions from stdin.
[[nodiscard]] std::string rex_job(std::string_view path, std::string_view body, std::string_view type);
/// The body as one line, and the session that it names. Throws InvalidRequest.
struct RexRequest {
    std::string line, session;
    bool of_e2b = false;  // whose requests to execute have code, and no command
};
[[nodiscard]] RexRequest read_rex(std::string_view body);

/// The answer to a request from the answer of its job.
[[nodiscard]] RexAnswer rex_answer(std::string_view job_answer);
/// The same from a line that a session's program wrote.
[[nodiscard]] RexAnswer rex_action_answer(std::string_view line);
/// Answers to requests that a session answers no more, and to those that closed it.
[[nodiscard]] RexAnswer rex_session_end(std::string_view job_answer);
[[nodiscard]] RexAnswer rex_closed(std::string_view job_answer);
/// An exception of SWE-ReX, which its client raises again.
[[nodiscard]] RexAnswer rex_exception(std::string_view name, std::string_view message);

}  // namespace callgate::jobs::http
