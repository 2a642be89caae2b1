#include "supervisor/calls/files/git_counts.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <string>

#include "base/test_switch.hpp"
#include "base/write_all.hpp"
#include "supervisor/kernel/target.hpp"

namespace callgate::calls {

namespace {

/// Room for a number, the end of its line, and zeros.
constexpr std::size_t room = 16;

UniqueFd make_memory() {
    UniqueFd made(::memfd_create("callgate-count", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    if (!made || ::ftruncate(made.get(), room) != 0 ||
        ::fcntl(made.get(), F_ADD_SEALS, F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL) != 0)
        return {};
    return made;
}

/// The number with the end of its line; "" if there is none, or more than that.
std::string_view count_in(std::string_view text) {
    if (!check_enabled("number-alone")) return text.substr(0, text.find('\0'));
    const std::size_t digits = std::min(text.find_first_not_of("0123456789"), text.size());
    if (digits == 0 || digits == text.size() || text[digits] != '\n') return "";
    const bool alone = text.find_first_not_of('\0', digits + 1) == std::string_view::npos;
    return alone ? text.substr(0, digits + 1) : "";
}

bool is_same(const UniqueFd& one, const UniqueFd& other) {
    struct stat first {
    }, second{};
    return ::fstat(one.get(), &first) == 0 && ::fstat(other.get(), &second) == 0 &&
           first.st_dev == second.st_dev && first.st_ino == second.st_ino;
}

}  // namespace

bool is_git_count(std::string_view path) {
    return path.ends_with("/rebase-merge/msgnum") || path.ends_with("/rebase-merge/end") ||
           path.ends_with("/rebase-apply/next") || path.ends_with("/rebase-apply/last");
}

Result<UniqueFd> GitCounts::replace(UniqueFd real, int access) {
    settle();
    UniqueFd memory = make_memory();
    if (!memory) return errno_code();
    const kernel::PinPath path(memory.get());
    UniqueFd handed(::openat(kernel::own_descriptors(), path.number(), access | O_CLOEXEC));
    if (!handed) return errno_code();
    const std::lock_guard held(mutex_);
    // An earlier open of this file is over.
    std::erase_if(pending_, [&](const Pending& one) { return is_same(one.real, real); });
    if (pending_.size() >= max_pending) pending_.erase(pending_.begin());
    pending_.push_back({std::move(real), std::move(memory)});
    any_ = true;
    return handed;
}

void GitCounts::settle() {
    if (!any_) return;
    const std::lock_guard held(mutex_);
    std::erase_if(pending_, [](const Pending& one) {
        std::array<char, room> bytes{};
        if (::pread(one.written.get(), bytes.data(), room, 0) != static_cast<ssize_t>(room)) return true;
        const std::string_view count = count_in({bytes.data(), room});
        return !count.empty() && write_all(one.real.get(), count);
    });
    any_ = !pending_.empty();
}

}  // namespace callgate::calls
