// The prompt: a question as lines of a terminal, and the meaning of a typed line.
//
// The target chooses everything in a question. Each byte outside printable ASCII is shown as \xNN, unless it
// is of a letter that the reader knows (base/reader_letters.hpp). So nothing looks like something else, turns
// direction, moves the cursor or draws a frame. A long field wraps while the
// screen has room. Beyond it the field is cut in the middle, with the number of hidden bytes. Then only a
// denial is taken before the details were shown. Where the screen does not hold the details either, only a
// denial is taken: what left it at its top was not seen.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "supervisor/approval/questions/question_view.hpp"

namespace callgate::approval {

struct Look {
    std::size_t columns = 80, rows = 0;   // rows: 0 if they are not known
    bool scrolls_back = true;             // lines that left it at its top can be looked at
    std::size_t position = 1, total = 1;  // among the questions that wait
    bool details = false;
    bool plain = false;  // no box characters
    std::int64_t now_ns = 0;
    Width width{};  // that `t` has now
};

struct Drawn {
    std::string text;       // lines, each with its newline
    bool cut = false;       // something was hidden
    bool too_tall = false;  // the screen does not hold it
};
[[nodiscard]] Drawn draw(const QuestionView& shown, const Look& look);

/// At most `width` columns; "..[+N bytes].." stands for what is left out of the middle.
[[nodiscard]] std::string shortened(const std::string& text, std::size_t width, bool& cut);

/// The meaning of a line. Letters never change their meaning.
enum class Typed : std::uint8_t {
    deny,
    once,
    object,
    tree,
    wider,
    writing,
    deny_run,
    deny_all,
    propose,
    details,
    kill,
    again
};
/// `detailed` says that the details were shown, or that nothing was hidden.
[[nodiscard]] Typed understand(std::string_view line, const QuestionView& shown, bool detailed);

/// Lines as a terminal gives them. A paste is no answer: nothing from its beginning to its end counts,
/// whatever lines it holds.
class TypedLines {
public:
    /// The line, or nothing if a part of it was pasted.
    [[nodiscard]] std::optional<std::string> take(std::string_view line);

private:
    bool pasting_ = false;
};

}  // namespace callgate::approval
