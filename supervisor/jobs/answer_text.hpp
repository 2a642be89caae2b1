// The answer to a request, as one line of JSON (docs/exec.schema.json).
//
// An attacker chose every byte of both outputs: no byte ends the line, ends a string or draws on a terminal.
#pragma once

#include <string>
#include <string_view>

#include "base/buffer.hpp"
#include "supervisor/jobs/execution.hpp"

namespace callgate::jobs {

/// Each ends with a newline. Where `result.why` is set, it becomes `error`, and there is no exit code.
[[nodiscard]] std::string answer_text(const JobResult& result, bool compat);
/// The answer to an invalid request.
[[nodiscard]] std::string answer_text(const Fault& fault, Form form);
/// The answer to a request to cancel a job.
[[nodiscard]] std::string answer_text(const Cancel& cancel, bool found);
/// The answer to input: `why` is "" once it was written to the job's stdin.
[[nodiscard]] std::string input_answer(const std::string& job, const std::string& id, const std::string& why);
/// A piece of `output` ("output" or "error") of a job that streams: `{"id":ID,"stream":OUTPUT,"text":...}`.
[[nodiscard]] std::string answer_text(const std::string& id, std::string_view output, std::string_view bytes);

/// Appends `bytes` as a JSON string. Bytes that are not UTF-8 become U+FFFD as with Python's "replace": one
/// for each part that begins a character and cannot be continued. Hidden characters are escaped. Returns
/// false if there was any such part.
bool append_text(Buffer& out, std::string_view bytes);
/// `bytes` without the beginning of a character at its end, where a character was cut.
[[nodiscard]] std::string_view whole_characters(std::string_view bytes);

}  // namespace callgate::jobs
