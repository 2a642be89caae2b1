// How far git has come in a rebase or in a series of patches: four files that hold one number each.
//
// The prompt of git's own (git-sh-prompt) puts their text into the prompt of the user's shell. The shell then
// expands it, and runs what stands in `$(...)`. So a run may write nothing there but a number. It opens one
// of them and gets a small memory file in its place. callgate writes the number from there into the real
// file.
//
// An attacker writes any bytes into the memory file, at any time, by any of its descriptors and maps. It is
// read once, at one moment, and believed if a number and the end of a line are all that it holds. Its size is
// sealed, so that what callgate keeps is small. callgate keeps the real file open for writing, by its pin.
// Removed or moved by the run, it gets its number wherever it is.
#pragma once

#include <atomic>
#include <mutex>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "base/unique_fd.hpp"

namespace callgate::calls {

/// Whether a path has the form of such a file. The rule says which of them are meant.
[[nodiscard]] bool is_git_count(std::string_view path);

/// Any thread.
class GitCounts {
public:
    /// The file that the run writes in place of `real`, which is empty and open for writing.
    [[nodiscard]] Result<UniqueFd> replace(UniqueFd real, int access);
    /// Gives each real file its number, if it was written since. git has written it by its next open. The
    /// last one is there by the end of the run.
    void settle();

private:
    struct Pending {
        UniqueFd real, written;
    };
    static constexpr std::size_t max_pending = 64;  // then the oldest stays empty

    std::mutex mutex_;
    std::vector<Pending> pending_;
    std::atomic<bool> any_{false};
};

}  // namespace callgate::calls
