#include "supervisor/calls/exec/script.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>

#include "supervisor/kernel/target.hpp"

namespace callgate::calls {

namespace {

constexpr std::string_view blanks = " \t";

/// As a C string ends.
std::string_view until_nul(std::string_view text) { return text.substr(0, text.find('\0')); }

}  // namespace

std::optional<ScriptLine> script_line(std::string_view head) {
    if (!head.starts_with("#!")) return std::nullopt;
    // The kernel's buffer is filled up with NULs, and its last byte never counts.
    std::string line(head.substr(2, head_size - 2));
    line.resize(head_size - 2, '\0');
    if (const std::size_t end = line.find('\n'); end != std::string::npos) {
        line.resize(end);
    } else {
        line.pop_back();
        const std::size_t name = line.find_first_not_of(blanks);
        // A name that does not end within the buffer may have been cut off.
        if (name == std::string::npos ||
            line.find_first_of(std::string_view(" \t\0", 3), name) == std::string::npos)
            return std::nullopt;
    }
    const std::size_t first = line.find_first_not_of(blanks);
    if (first == std::string::npos) return std::nullopt;
    const std::string_view rest =
        std::string_view(line).substr(first, line.find_last_not_of(blanks) + 1 - first);
    ScriptLine found;
    const std::size_t end = rest.find_first_of(std::string_view(" \t\0", 3));
    found.interpreter = rest.substr(0, end);
    if (end == std::string_view::npos || rest[end] == '\0') return found;
    found.argument = until_nul(rest.substr(rest.find_first_not_of(blanks, end)));
    return found;
}

Result<std::string> read_head(const Object& file) {
    const kernel::PinPath pin(file.pin.get());
    const UniqueFd opened(
        ::openat(kernel::own_descriptors(), pin.number(), O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK));
    if (!opened) return errno_code();
    std::array<char, head_size> bytes{};
    std::size_t length = 0;
    while (length < bytes.size()) {
        const ssize_t got =
            ::pread(opened.get(), bytes.data() + length, bytes.size() - length, static_cast<off_t>(length));
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return errno_code();
        if (got == 0) break;
        length += static_cast<std::size_t>(got);
    }
    return std::string(bytes.data(), length);
}

std::vector<std::string> interpreter_arguments(const ScriptLine& line, const std::string& script,
                                               const std::vector<std::string>& arguments) {
    std::vector<std::string> all{line.interpreter};
    if (line.argument) all.push_back(*line.argument);
    all.push_back(script);
    // The program's own name gives way to all that.
    if (!arguments.empty()) all.insert(all.end(), arguments.begin() + 1, arguments.end());
    return all;
}

}  // namespace callgate::calls
