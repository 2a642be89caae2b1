// What became of a job, as one line of JSON (docs/exec.schema.json).
//
// An attacker chose every byte of both outputs: none of them ends the line, ends a string or draws on a
// terminal.
#pragma once

#include <string>
#include <string_view>

#include "base/buffer.hpp"
#include "supervisor/jobs/execution.hpp"

namespace callgate::jobs {

/// With a newline. Where `result.why` is set, `error` says it, and there is no exit code.
[[nodiscard]] std::string answer(const JobResult& result, bool compat);
/// To a request that was no job.
[[nodiscard]] std::string answer(const Fault& fault, Form form);
/// To a request to cancel.
[[nodiscard]] std::string answer(const Cancel& cancel, bool found);

/// Appends `bytes` as a JSON string, with U+FFFD for what is no UTF-8, as Python's "replace" has it: one for
/// each part that begins a character and cannot be continued. Hidden characters are escaped. False where
/// there was any such part.
bool append_text(Buffer& out, std::string_view bytes);
/// Without the beginning of a character at its end, where one was cut.
[[nodiscard]] std::string_view whole_characters(std::string_view bytes);

}  // namespace callgate::jobs
