// Formats a record as its line, field by field as docs/audit.md describes it. It is written by hand because
// every contested call waits for it.
//
// It touches nothing but the buffer. Bytes that the target chose pass through escape.hpp; redact.hpp takes
// secrets out of the command. The line lacks only its sequence number and its hashes (chain.hpp), which are
// known only under the log's lock.
#pragma once

#include <cstddef>
#include <cstdint>
#include <ctime>
#include <optional>
#include <string_view>

#include "base/buffer.hpp"
#include "supervisor/audit/write/outcome.hpp"
#include "supervisor/audit/write/record.hpp"

namespace callgate::audit {

/// Every record of a run holds these values.
struct RunContext {
    std::string_view run;
    Mode mode = Mode::enforce;
};

/// Bytes that are left free before a line: for the sequence number's digits, and for a newline that ends a
/// torn line.
inline constexpr std::size_t head_room = 24;
/// The maximum size of a line, its newline included: readers bound their memory by it.
inline constexpr std::size_t max_line = 1U << 20;

/// Each function clears `out`, then writes `head_room` free bytes and the line with its newline. It returns
/// where the sequence number's digits belong.
std::size_t format(Buffer& out, const RunContext& context, const Decision& decision);
std::size_t format(Buffer& out, const RunContext& context, const ActFailed& what);
std::size_t format(Buffer& out, const RunContext& context, const AnswerLost& what);
std::size_t format(Buffer& out, const RunContext& context, const Refused& what);
std::size_t format(Buffer& out, const RunContext& context, const RunStart& start);
std::size_t format(Buffer& out, const RunContext& context, const RunEnd& end);
std::size_t format(Buffer& out, const RunContext& context, const Recovered& what);
std::size_t format(Buffer& out, const RunContext& context, const PromptShown& what);
std::size_t format(Buffer& out, const RunContext& context, const PromptAnswered& what);
std::size_t format(Buffer& out, const RunContext& context, const PromptWithdrawn& what);
std::size_t format(Buffer& out, const RunContext& context, const GrantRevoked& what);
std::size_t format(Buffer& out, const RunContext& context, const Checkpoint& what);

/// Puts the sequence number in. The line then begins at the returned offset (at most `head_room`) and ends
/// where the buffer does. At least three free bytes are left before it.
std::size_t put_sequence(Buffer& out, std::size_t sequence_at, std::uint64_t sequence);

/// Appends "EACCES", or the number in decimal if it has no name.
void append_errno(Buffer& out, int error);
/// "203.0.113.4", "2001:db8::1"
void append_address(Buffer& out, const rules::IpAddress& address);
/// "error", "on_behalf", ... as the log writes them.
[[nodiscard]] std::string_view name(Mechanism mechanism);
/// Whether the call is refused: it is not allowed, and was not merely noted (audit mode).
[[nodiscard]] bool refused(const Decision& decision);

// Times of records: UTC with nanoseconds, "2026-11-20T10:11:12.123456789Z".

/// Appends `when` (CLOCK_REALTIME). The calendar is computed once per second and thread.
void append_timestamp(Buffer& out, const std::timespec& when);

/// The time of a record. Returns nullopt if `text` does not have that form, or is no date or time of day.
[[nodiscard]] std::optional<std::timespec> read_timestamp(std::string_view text);
/// The same time in nanoseconds since 1970, as far as 64 bits hold them (the year 2262).
[[nodiscard]] std::optional<std::int64_t> parse_timestamp(std::string_view text);

}  // namespace callgate::audit
