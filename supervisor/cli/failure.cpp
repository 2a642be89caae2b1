#include "supervisor/cli/failure.hpp"

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "base/escape.hpp"
#include "rules/load/loader.hpp"

namespace callgate::cli {

std::string suggestion(std::string_view word, std::span<const std::string_view> known,
                       std::string_view prefix) {
    const std::optional<std::string> near = rules::nearest(word, known);
    return near ? "; did you mean " + std::string(prefix) + *near + "?" : "";
}

void say(std::string_view message) {
    const std::string line = "callgate: " + terminal_safe(message) + "\n";
    std::fputs(line.c_str(), stderr);
}

void print(std::string_view text) {
    if (std::fwrite(text.data(), 1, text.size(), stdout) == text.size() && std::fflush(stdout) == 0) return;
    throw Failure(std::string("cannot write to standard output: ") + std::strerror(errno));
}

}  // namespace callgate::cli
