// Code in a language as a command line.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace callgate::jobs {

/// A command reads code from this descriptor if no argument can hold it (MAX_ARG_STRLEN, execve(2)).
inline constexpr int script_descriptor = 4;

struct Program {
    std::vector<std::string> command;
    std::string script;  // "": the code stands in the command
};

/// `language` is one of `languages()`; the code holds no NUL.
[[nodiscard]] Program program(std::string_view language, const std::string& code);

[[nodiscard]] std::span<const std::string_view> languages();

}  // namespace callgate::jobs
