#include "supervisor/kernel/memory_places.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <string_view>

#include "base/unique_fd.hpp"
#include "supervisor/kernel/acting_identity.hpp"
#include "supervisor/kernel/target.hpp"

namespace callgate::kernel {

namespace {

/// Fields of /proc/PID/stat (proc(5)): startcode to startstack, start_data to env_end.
constexpr bool is_place(int field) { return (field >= 26 && field <= 28) || (field >= 45 && field <= 51); }
constexpr std::size_t stack_place = 2;

}  // namespace

std::optional<MemoryPlaces> memory_places(pid_t process) {
    const ReadingCaller reading;
    const UniqueFd fd(::open(ProcPath(process, "stat").text, O_RDONLY | O_CLOEXEC));
    char text[1024];
    const ssize_t got = fd ? ::read(fd.get(), text, sizeof text) : -1;
    if (got <= 0) return std::nullopt;
    const std::string_view line(text, static_cast<std::size_t>(got));
    // The name is the process's own choice, and may hold parentheses.
    std::size_t at = line.rfind(") ");
    if (at == std::string_view::npos) return std::nullopt;
    MemoryPlaces places{};
    std::size_t found = 0;
    at += 2;
    for (int field = 3; at < line.size() && found < places.size(); ++field) {
        const std::size_t end = std::min(line.find(' ', at), line.size());
        if (is_place(field)) std::from_chars(line.data() + at, line.data() + end, places[found++]);
        at = end + 1;
    }
    if (found < places.size() || places[stack_place] == 0) return std::nullopt;
    return places;
}

}  // namespace callgate::kernel
