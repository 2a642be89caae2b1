#include "supervisor/host/name_lock_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>

namespace callgate {

Expected<UniqueFd> open_name_lock_file(const std::string& state) {
    const std::string path = state + "/name-lock";
    constexpr int flags = O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC;
    UniqueFd file(::open(path.c_str(), flags, 0600));
    struct stat status {};
    if (!file || ::fstat(file.get(), &status) != 0)
        return Problem{"cannot open " + path + ": " + std::strerror(errno)};
    if (!S_ISREG(status.st_mode)) return Problem{path + " is no regular file"};
    return file;
}

}  // namespace callgate
