// How the programs inside jobs are started, and the function by which they open files.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace callgate::jobs::http {

/// For python3, in front of a program that has imported errno, os and stat before it calls this. Jobs may
/// have put anything at a name.
inline constexpr std::string_view regular_program = R"py(
def regular(path, flags):
    """Opened so that nothing is waited for. Jobs may have put a FIFO there, or a link to a device that has no end."""
    try:
        descriptor = os.open(path, flags | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC, 0o666)
    except OSError as error:
        if error.errno == errno.ENXIO:  # a FIFO that nobody reads, a socket
            raise ValueError(f"{path}: no regular file") from None
        raise
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        raise ValueError(f"{path}: no regular file")
    return descriptor
)py";

/// `program` with the function above.
inline std::string with_regular(std::string_view program) {
    return std::string(regular_program).append(program);
}

/// Lets a command of python3 take no module from where jobs may have put one: the work directory, and what
/// PYTHONPATH names. Each empty part of that is the work directory, too.
inline void isolate(nlohmann::json& command) { command.insert(command.begin() + 1, "-I"); }

}  // namespace callgate::jobs::http
