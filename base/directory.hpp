// A directory stream with one owner (opendir(3)).
#pragma once

#include <dirent.h>

#include <memory>

namespace callgate {

struct CloseDirectory {
    void operator()(DIR* directory) const noexcept { ::closedir(directory); }
};
/// Null if the directory could not be opened.
using Directory = std::unique_ptr<DIR, CloseDirectory>;

}  // namespace callgate
