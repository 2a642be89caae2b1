// Scripts: the interpreters that the kernel will run for a file that begins with "#!", as
// fs/binfmt_script.c finds them.
//
// An attacker controls the file's bytes and may change them at any time, and every name on the way to an
// interpreter. So this finds only what to expect. That is judged first; the program that then really runs is
// compared with it before its first instruction.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "supervisor/calls/resolve.hpp"

namespace callgate::calls {

/// The number of bytes by which the kernel recognises a file (BINPRM_BUF_SIZE).
inline constexpr std::size_t head_size = 256;

struct ScriptLine {
    std::string interpreter;
    std::optional<std::string> argument;
};
/// The first line of a script by the file's first bytes (at most `head_size`); nothing if the kernel would
/// not take it for a script.
[[nodiscard]] std::optional<ScriptLine> script_line(std::string_view head);

/// The first `head_size` bytes of a pinned regular file, or all if it is shorter. EACCES if this identity may
/// not read it.
[[nodiscard]] Result<std::string> read_head(const Object& file);

/// The arguments that an interpreter gets: `script` is the name under which the kernel knows the file that
/// named it, `arguments` those before (none: not known).
[[nodiscard]] std::vector<std::string> interpreter_arguments(const ScriptLine& line,
                                                             const std::string& script,
                                                             const std::vector<std::string>& arguments);

}  // namespace callgate::calls
