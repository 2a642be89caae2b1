#include "supervisor/jobs/language.hpp"

#include <array>

namespace callgate::jobs {

namespace {

/// The largest argument, its NUL included, has 32 pages (linux/binfmts.h).
constexpr std::size_t max_argument = std::size_t{32} * 4096;

constexpr std::array<std::string_view, 4> all_languages = {"python", "bash", "sh", "node"};

// These read by number: the descriptor's file has no name that a rule could allow.
constexpr const char* read_by_shell = ". /dev/fd/4";
constexpr const char* read_by_python = "exec(compile(open(4,'rb').read(),'<string>','exec'))";
constexpr const char* read_by_node = "--eval=(0,eval)(require('fs').readFileSync(4,'utf8'))";
static_assert(script_descriptor == 4);

}  // namespace

std::span<const std::string_view> languages() { return all_languages; }

Program program(std::string_view language, const std::string& code) {
    const bool fits = code.size() + sizeof "--eval=" < max_argument;
    Program made;
    if (!fits) made.script = code;
    if (language == "python") {
        made.command = {"python3", "-c", fits ? code : read_by_python};
    } else if (language == "node") {
        // node takes an empty argument for a missing one.
        made.command = {"node", fits ? "--eval=" + (code.empty() ? ";" : code) : read_by_node};
    } else {
        // A shell would take code that begins with - or + for an option.
        const bool option = !code.empty() && (code[0] == '-' || code[0] == '+');
        made.command = {std::string(language), "-c", fits ? (option ? " " : "") + code : read_by_shell};
    }
    return made;
}

}  // namespace callgate::jobs
