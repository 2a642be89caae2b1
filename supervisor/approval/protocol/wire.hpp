// The protocol's messages (docs/approvals.md, docs/approval.schema.json): JSON, one object a line.
//
// Outgoing messages hold bytes that the target chose. Hidden characters are escaped, and text that is not
// UTF-8 is given in base64 too. Incoming messages are hostile until their sender has authenticated itself,
// and may be nonsense afterwards. Each is parsed into one of a closed set of messages, or rejected.
#pragma once

#include <string>
#include <string_view>
#include <variant>

#include "supervisor/approval/questions/question_queue.hpp"

namespace callgate::approval {

/// The longest line that is read.
inline constexpr std::size_t max_message = 64 << 10;

/// The state of a run, for `callgate ps`.
struct RunStatus {
    std::vector<std::string> command;
    std::string workdir;
    pid_t pid = 0;
    std::int64_t age_ms = 0;
    std::uint64_t allowed = 0, denied = 0;
    std::uint64_t questions = 0, callers = 0, grants = 0;
};

[[nodiscard]] std::string status_message(std::string_view run, const RunStatus& status);
[[nodiscard]] std::string hello_message(std::string_view run, bool token_required);
[[nodiscard]] std::string ask_message(const QuestionQueue::Open& open, std::int64_t now_ns);
[[nodiscard]] std::string count_message(const QuestionQueue::Open& open, std::int64_t now_ns);
[[nodiscard]] std::string withdrawn_message(std::uint64_t id, std::string_view why);
/// `id` is 0 if the answer names no question.
[[nodiscard]] std::string ack_message(std::uint64_t id, bool applied, std::string_view why);
[[nodiscard]] std::string error_message(std::string_view why);
[[nodiscard]] std::string grants_message(const std::vector<Grant>& grants);

struct AuthMessage {
    std::string token;
};
/// `wrong` names the part that is not understood; the decision then denies.
struct DecisionMessage {
    std::uint64_t id = 0;
    std::string key;
    Reply reply;
    std::string wrong;
};
struct RestMessage {  // the person has begun to answer
    std::uint64_t id = 0;
};
struct StatusMessage {};
struct GrantsMessage {};
struct RevokeMessage {
    std::uint64_t grant = 0;
};
struct StopMessage {};
struct Nonsense {
    std::string why;
};
using Message = std::variant<Nonsense, AuthMessage, DecisionMessage, RestMessage, StatusMessage,
                             GrantsMessage, RevokeMessage, StopMessage>;
[[nodiscard]] Message parse_message(std::string_view line);

/// Words for the effect of an answer; "" if it was applied.
[[nodiscard]] std::string_view why(QuestionQueue::Applied applied);

}  // namespace callgate::approval
