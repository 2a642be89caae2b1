#include "supervisor/calls/files/open_flags.hpp"

#include <array>

namespace callgate::calls {

namespace {

struct NamedFlag {
    int bits;
    std::string_view name;
};
// Flags that hold another one's bits come first.
constexpr std::array named_flags = {
    NamedFlag{O_TMPFILE, "O_TMPFILE"},
    NamedFlag{O_SYNC, "O_SYNC"},
    NamedFlag{O_DSYNC, "O_DSYNC"},
    NamedFlag{O_CREAT, "O_CREAT"},
    NamedFlag{O_EXCL, "O_EXCL"},
    NamedFlag{O_NOCTTY, "O_NOCTTY"},
    NamedFlag{O_TRUNC, "O_TRUNC"},
    NamedFlag{O_APPEND, "O_APPEND"},
    NamedFlag{O_NONBLOCK, "O_NONBLOCK"},
    NamedFlag{O_ASYNC, "O_ASYNC"},
    NamedFlag{O_DIRECT, "O_DIRECT"},
    NamedFlag{O_DIRECTORY, "O_DIRECTORY"},
    NamedFlag{O_NOFOLLOW, "O_NOFOLLOW"},
    NamedFlag{O_NOATIME, "O_NOATIME"},
    NamedFlag{O_CLOEXEC, "O_CLOEXEC"},
    NamedFlag{O_PATH, "O_PATH"},
    NamedFlag{empty_path_flag, "O_EMPTYPATH"},
};

}  // namespace

void name_open_flags(int flags, std::vector<std::string_view>& into) {
    into.clear();
    switch (flags & O_ACCMODE) {
        case O_RDONLY:
            into.push_back("O_RDONLY");
            break;
        case O_WRONLY:
            into.push_back("O_WRONLY");
            break;
        case O_RDWR:
            into.push_back("O_RDWR");
            break;
        default:
            into.push_back("O_ACCMODE");
            break;
    }
    for (const NamedFlag& flag : named_flags) {
        if ((flags & flag.bits) != flag.bits) continue;
        into.push_back(flag.name);
        flags &= ~flag.bits;
    }
}

}  // namespace callgate::calls
