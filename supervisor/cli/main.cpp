#include <fcntl.h>
#include <unistd.h>

#include "supervisor/cli/verbs.hpp"

/// A closed standard descriptor becomes /dev/null before anything else is opened: else a log would take its
/// number, and the command would inherit it.
static bool hold_standard_descriptors() {
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; ++fd) {
        if (::fcntl(fd, F_GETFD) < 0 && ::open("/dev/null", O_RDWR) != fd) return false;
    }
    return true;
}

int main(int count, char** words) {
    if (!hold_standard_descriptors()) return 125;
    return callgate::cli::dispatch(std::vector<std::string>(words + (count > 0 ? 1 : 0), words + count));
}
