// The prompt: a question as lines of a terminal, and what a typed line answers.
//
// Everything in a question is the target's choice. Bytes outside printable ASCII are shown as \xNN, one by
// one: so nothing looks like something else, turns direction, moves the cursor or draws a frame. What is too
// long is cut in the middle with the number of hidden bytes, and then nothing wider than a denial is taken
// before the details were shown.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "supervisor/approval/questions/question_view.hpp"

namespace callgate::approval {

struct Look {
    std::size_t columns = 80;
    std::size_t position = 1, total = 1;  // among the questions that wait
    bool details = false;
    bool plain = false;  // no box characters
    std::int64_t now_ns = 0;
};

struct Drawn {
    std::string text;  // lines, each with its newline
    bool cut = false;  // something was hidden
};
[[nodiscard]] Drawn draw(const QuestionView& shown, const Look& look);

/// Printable ASCII; everything else as \xNN, and a backslash doubled.
[[nodiscard]] std::string ascii_safe(std::string_view bytes);
/// At most `width` columns; what is left out of the middle is counted: "…[+N bytes]…" in ASCII.
[[nodiscard]] std::string shortened(const std::string& text, std::size_t width, bool& cut);

/// What a line means. Letters never change their meaning.
enum class Typed : std::uint8_t { deny, once, object, tree, deny_run, propose, details, kill, again };
/// `detailed`: the details were shown, or nothing was hidden.
[[nodiscard]] Typed understand(std::string_view line, const QuestionView& shown, bool detailed);

/// Lines as a terminal gives them. What was pasted is no answer: from its beginning to its end nothing
/// counts, whatever lines it holds.
class TypedLines {
public:
    /// The line without what was pasted; nothing where it was part of a paste.
    [[nodiscard]] std::optional<std::string> take(std::string_view line);

private:
    bool pasting_ = false;
};

}  // namespace callgate::approval
