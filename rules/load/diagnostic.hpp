// Findings about rule files, and their text.
//
// An attacker may have written every byte of a message's quoted part. `text` lets no control, bidirectional
// or other invisible character through, so that a finding can be printed on a terminal.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "rules/model/rule.hpp"

namespace callgate::rules {

/// A finding about a file; `source.file` is "" for a finding about options.
struct Diagnostic {
    enum class Severity { error, warning };
    Severity severity = Severity::error;
    Source source;
    std::string message;
    /// "FILE:LINE:COLUMN: error: MESSAGE", safe for a terminal.
    [[nodiscard]] std::string text() const;
};

/// `text` with everything that a terminal would interpret or hide escaped: "\n", "\x1b", "\u{202e}".
[[nodiscard]] std::string printable(std::string_view text);

/// `text` in double quotes, cut in the middle where it is longer than 80 bytes. Not yet printable.
[[nodiscard]] std::string in_quotes(std::string_view text);

/// Length of the well-formed UTF-8 sequence at `offset`, 0 if there is none.
[[nodiscard]] std::size_t utf8_length(std::string_view text, std::size_t offset);

/// The nearest word by edit distance (at most a third of its length, at least 1), or nothing.
[[nodiscard]] std::optional<std::string> nearest(std::string_view word,
                                                 std::span<const std::string_view> known);

/// Collects the findings of one file, at most `max_errors` errors: a hostile file of a megabyte could
/// otherwise cause hundreds of thousands.
class Findings {
public:
    static constexpr std::size_t max_errors = 1000;

    Findings(std::string file, std::vector<Diagnostic>& out) : file_(std::move(file)), out_(out) {}

    void error(int line, int column, std::string message);
    [[nodiscard]] std::size_t errors() const { return errors_; }
    [[nodiscard]] Source at(int line, int column) const { return {file_, line, column}; }
    [[nodiscard]] const std::string& file() const { return file_; }

private:
    std::string file_;
    std::vector<Diagnostic>& out_;
    std::size_t errors_ = 0;
};

}  // namespace callgate::rules
