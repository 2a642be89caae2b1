#include "base/process/replace_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>

#include "base/unique_fd.hpp"
#include "base/write_all.hpp"

namespace callgate {

bool replace_file(const std::string& path, std::string_view text, mode_t mode, Sync sync) {
    std::string beside = path + ".XXXXXX";
    const UniqueFd file(::mkostemp(beside.data(), O_CLOEXEC));
    if (!file) return false;
    if (write_all(file.get(), text) && ::fchmod(file.get(), mode) == 0 &&
        (sync == Sync::later || ::fsync(file.get()) == 0) && ::rename(beside.c_str(), path.c_str()) == 0)
        return true;
    const int why = errno;
    ::unlink(beside.c_str());
    errno = why;
    return false;
}

}  // namespace callgate
