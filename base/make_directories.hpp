// mkdir(2) for a path and what is missing above it.
#pragma once

#include <sys/stat.h>

#include <cerrno>
#include <string>

#include "base/result.hpp"

namespace callgate {

/// Makes the directory at the absolute `path`, and those above it, for this user alone (mode 0700). One that
/// exists is good enough, where it cannot be made (a read-only file system) too. Errors: errno of mkdir(2).
[[nodiscard]] inline Result<void> make_directories(const std::string& path) {
    for (std::size_t at = path.find('/', 1);; at = path.find('/', at + 1)) {
        const std::string part = path.substr(0, at);
        if (::mkdir(part.c_str(), 0700) != 0 && errno != EEXIST) {
            const int error = errno;
            struct stat status {};
            if (::stat(part.c_str(), &status) != 0) return errno_code(error);
        }
        if (at == std::string::npos) return {};
    }
}

}  // namespace callgate
