// E2B's interfaces: the code interpreter's cells, and the processes and files of its daemon by the Connect
// protocol in JSON.
//
// The sender controls every byte. A process is one job, whose command is the request's. Files are read and
// changed by a program inside a job (e2b_program.hpp). A context is a job with the same program, which gets
// cells as input. Nothing here opens or starts anything.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "supervisor/jobs/http/request.hpp"
#include "supervisor/jobs/http/swe_rex.hpp"
#include "supervisor/jobs/strict_json.hpp"

namespace callgate::jobs::http {

/// Thrown for what the protocol has and this service does not.
struct Unoffered : InvalidRequest {};

/// Paths of E2B's control plane, code interpreter and daemon. Its `/execute` is told apart by its body.
[[nodiscard]] bool is_e2b_path(std::string_view path);
/// Why a request is not offered; nullopt where it is.
[[nodiscard]] std::optional<std::string> not_offered(const Head& head, std::string_view path);

/// An error of the Connect protocol, with its status.
[[nodiscard]] RexAnswer e2b_error(std::string_view code, std::string_view why);

/// Whether the answer is a stream of messages. Then its error is the last of them, with the status 200.
[[nodiscard]] bool has_stream(const Head& head);
[[nodiscard]] RexAnswer stream_error(const RexAnswer& error);

// A message of a stream has a byte of flags and its length in four bytes before it.
[[nodiscard]] std::string envelope(std::string_view message, bool last = false);

/// `process.Process/Start`. Throws InvalidRequest. `limit` is the time in milliseconds, "" none.
struct E2bStart {
    std::string job, config;
};
[[nodiscard]] E2bStart read_start(std::string_view body, std::string_view limit);
/// Messages of its answer. `answer` is the server's, without an id.
[[nodiscard]] std::string start_event(std::uint64_t process);
[[nodiscard]] std::string output_event(std::string_view output, std::string_view piece);
[[nodiscard]] std::string end_events(std::string_view answer);

/// A request about a process that runs. Throws InvalidRequest.
struct E2bProcessRequest {
    std::uint64_t process = 0;
    std::string bytes;  // base64 of input
    bool kills = false;
};
[[nodiscard]] E2bProcessRequest read_process_request(std::string_view path, std::string_view body);

[[nodiscard]] std::string file_job(const Head& head, std::string_view path, std::string_view body);
[[nodiscard]] RexAnswer file_answer(std::string_view job_answer);

/// The job of a context that begins in `directory`, and the line of a cell. Throws InvalidRequest.
[[nodiscard]] std::string context_job(std::string_view directory);
[[nodiscard]] std::string context_directory(std::string_view body);
struct E2bCell {
    std::string line, context;  // "" the sandbox's default one
};
[[nodiscard]] E2bCell read_cell(std::string_view body, std::uint64_t number);
/// The answer to what made a context, from the first line of its program.
[[nodiscard]] RexAnswer context_answer(std::string_view line, std::string_view id);
/// A line of a cell, and whether it is the last one. "" where it is no object.
struct E2bLine {
    std::string text;
    bool last = false;
};
[[nodiscard]] E2bLine cell_line(std::string_view line);
/// Ends the output of a cell that began, when its context has ended.
[[nodiscard]] std::string cell_over(std::string_view why);
[[nodiscard]] RexAnswer context_end(std::string_view job_answer);
[[nodiscard]] RexAnswer context_removed(std::string_view job_answer);

/// The answer to a request for a sandbox. Throws InvalidRequest.
[[nodiscard]] RexAnswer made_sandbox(std::string_view body, std::string_view id);

}  // namespace callgate::jobs::http
