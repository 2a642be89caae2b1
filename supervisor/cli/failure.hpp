// Failures at the start: wrong use, or a missing feature. They print a line on stderr and exit with 125;
// nothing has run.
//
// Thrown only before a run starts; `dispatch` catches it. The message holds bytes that the user typed: it is
// made safe for a terminal where it is printed, not where it is thrown.
#pragma once

#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

namespace callgate::cli {

/// callgate's own failure (docs/cli.md, Exit status).
inline constexpr int exit_failure = 125;
/// A finding: a failed example, or a missing feature that `run` needs.
inline constexpr int exit_finding = 1;

class Failure : public std::runtime_error {
public:
    explicit Failure(const std::string& message) : std::runtime_error(message), detail_(message) {}
    /// `detail` is for the report, whose reader does not see lines printed before.
    Failure(const std::string& message, std::string detail)
        : std::runtime_error(message), detail_(std::move(detail)) {}
    [[nodiscard]] const std::string& detail() const { return detail_; }

private:
    std::string detail_;
};

/// "; did you mean PREFIXnear?", or "" if no word is near.
[[nodiscard]] std::string suggestion(std::string_view word, std::span<const std::string_view> known,
                                     std::string_view prefix = "");

/// Prints a line on stderr, prefixed "callgate: " and safe for a terminal.
void say(std::string_view message);

/// Prints text on stdout; throws Failure if it cannot all be written.
void print(std::string_view text);

}  // namespace callgate::cli
