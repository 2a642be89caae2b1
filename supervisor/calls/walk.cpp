#include "supervisor/calls/walk.hpp"

#include <fcntl.h>
#include <linux/magic.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <climits>
#include <optional>

#include "base/fs_user.hpp"
#include "base/test_switch.hpp"
#include "supervisor/calls/resolve.hpp"
#include "supervisor/kernel/acting_identity.hpp"
#include "supervisor/kernel/target.hpp"

namespace callgate::calls {

bool in_procfs(int fd) {
    struct statfs info {};
    return ::fstatfs(fd, &info) == 0 && info.f_type == PROC_SUPER_MAGIC;
}

namespace {

constexpr int max_links = 40;  // MAXSYMLINKS
constexpr ino_t proc_root_inode = 1;

UniqueFd open_component(int directory, const char* name) {
    return UniqueFd(::openat(directory, name, O_PATH | O_NOFOLLOW | O_CLOEXEC));
}

bool is_proc_root(int fd) {
    struct stat info {};
    return ::fstat(fd, &info) == 0 && info.st_ino == proc_root_inode && in_procfs(fd);
}

/// Magic links are told from written ones by the kernel itself: it refuses to follow them under this flag.
bool is_magic(int directory, const char* name) {
    open_how how{};
    how.flags = O_PATH | O_CLOEXEC;
    how.resolve = RESOLVE_NO_MAGICLINKS;
    const UniqueFd fd(static_cast<int>(::syscall(SYS_openat2, directory, name, &how, sizeof how)));
    return !fd && errno == ELOOP;
}

bool links_are_protected() {
    static const bool on = [] {
        const UniqueFd fd(::open("/proc/sys/fs/protected_symlinks", O_RDONLY | O_CLOEXEC));
        char digit = '0';
        return fd && ::read(fd.get(), &digit, 1) == 1 && digit == '1';
    }();
    return on;
}

/// fs/namei.c, may_follow_link: another user's link in a sticky, world-writable directory is not followed.
bool may_follow(int directory, const struct stat& link) {
    const uid_t own = fs_user();
    if (!links_are_protected() || !check_enabled("protected-links") || link.st_uid == own) return true;
    struct stat holder {};
    if (::fstat(directory, &holder) != 0) return false;
    constexpr mode_t shared = S_ISVTX | S_IWOTH;
    return (holder.st_mode & shared) != shared || holder.st_uid == link.st_uid;
}

enum class Step { more, done };

class Walk {
public:
    Walk(int base, std::string_view path, const WalkOptions& options)
        : options_(options), base_(base), rest_(path) {}

    Result<Walked> run();

private:
    Result<void> start();
    Result<void> to_root();
    Result<Step> step();
    [[nodiscard]] bool in_own_proc() const;
    [[nodiscard]] UniqueFd open_next(const std::string& name);
    Result<void> parent_step();
    Result<void> follow_link(const std::string& name, const UniqueFd& pin, const struct stat& link,
                             std::string_view after, bool last);
    Result<void> enter(UniqueFd next, const std::string& name, bool last, bool slash);
    [[nodiscard]] bool in_tree() const;
    [[nodiscard]] bool confined() const {
        return (options_.resolve & (RESOLVE_BENEATH | RESOLVE_IN_ROOT)) != 0;
    }
    Result<void> check_mount(int fd);

    const WalkOptions& options_;
    int base_;
    std::string rest_;
    UniqueFd current_;
    Walked result_;
    int links_ = 0;
    int depth_ = 0;  // components below the base: for RESOLVE_BENEATH and RESOLVE_IN_ROOT
    std::uint64_t mount_ = 0;
    bool done_ = false;
};

Result<void> Walk::to_root() {
    if ((options_.resolve & RESOLVE_BENEATH) != 0) return errno_code(EXDEV);
    if ((options_.resolve & RESOLVE_IN_ROOT) != 0) {
        current_.reset(::openat(base_, ".", O_PATH | O_CLOEXEC));
    } else {
        current_.reset(::open("/", O_PATH | O_DIRECTORY | O_CLOEXEC));
    }
    depth_ = 0;
    if (!current_) return errno_code();
    return {};
}

Result<void> Walk::start() {
    if (!rest_.empty() && rest_.front() == '/') {
        auto root = to_root();
        if (!root) return root.error();
    } else {
        current_.reset(::fcntl(base_, F_DUPFD_CLOEXEC, 0));
        if (!current_) return errno_code();
    }
    if ((options_.resolve & RESOLVE_NO_XDEV) != 0) {
        struct statx info {};
        if (::statx(current_.get(), "", AT_EMPTY_PATH, STATX_MNT_ID, &info) != 0) return errno_code();
        mount_ = info.stx_mnt_id;
    }
    return {};
}

Result<void> Walk::check_mount(int fd) {
    if ((options_.resolve & RESOLVE_NO_XDEV) == 0) return {};
    struct statx info {};
    if (::statx(fd, "", AT_EMPTY_PATH, STATX_MNT_ID, &info) != 0) return errno_code();
    if (info.stx_mnt_id != mount_) return errno_code(EXDEV);
    return {};
}

Result<void> Walk::parent_step() {
    if (confined() && depth_ == 0) {
        if ((options_.resolve & RESOLVE_BENEATH) != 0) return errno_code(EXDEV);
        return {};  // ".." of the root is the root
    }
    UniqueFd up(::openat(current_.get(), "..", O_PATH | O_DIRECTORY | O_CLOEXEC));
    if (!up) return errno_code();
    auto same = check_mount(up.get());
    if (!same) return same.error();
    current_ = std::move(up);
    --depth_;
    return {};
}

/// Whether a magic link of the current directory may be followed. A nested run has a Landlock domain of its
/// own. The kernel would refuse it the links of processes around it, and callgate's threads sit in a domain
/// that holds both.
bool Walk::in_tree() const {
    if (options_.tree == 0 || !check_enabled("nested-links")) return true;
    std::string directory;
    if (!kernel::path_of(current_.get(), directory)) return false;
    const pid_t owner = process_of_proc(directory);
    return owner != 0 && kernel::descends_from(owner, options_.tree);
}

/// `pin` is the link, and `link` its status. Another object may have its name by now.
Result<void> Walk::follow_link(const std::string& name, const UniqueFd& pin, const struct stat& link,
                               std::string_view after, bool last) {
    if (++links_ > max_links || (options_.resolve & RESOLVE_NO_SYMLINKS) != 0) return errno_code(ELOOP);
    const std::string remaining(after);
    if (in_procfs(current_.get())) {
        if (check_enabled("proc-self") && is_proc_root(current_.get()) &&
            (name == "self" || name == "thread-self")) {
            const auto found = kernel::own_numbers(options_.thread);
            if (!found) return found.error();
            rest_ = std::to_string(found->process);
            if (name == "thread-self") rest_ += "/task/" + std::to_string(found->thread);
            rest_ += remaining;
            return {};
        }
        std::optional<kernel::ReadingCaller> reading;
        if (in_own_proc()) reading.emplace();
        if (is_magic(current_.get(), name.c_str())) {
            if ((options_.resolve & RESOLVE_NO_MAGICLINKS) != 0) return errno_code(ELOOP);
            if (confined()) return errno_code(EXDEV);
            if (!in_tree()) return errno_code(EACCES);
            UniqueFd target(::openat(current_.get(), name.c_str(), O_PATH | O_CLOEXEC));
            if (!target) return errno_code();
            auto same = check_mount(target.get());
            if (!same) return same.error();
            rest_ = remaining;
            return enter(std::move(target), {}, last, !remaining.empty());
        }
    }
    if (last && !may_follow(current_.get(), link)) return errno_code(EACCES);
    char text[PATH_MAX];
    const ssize_t length = ::readlinkat(pin.get(), "", text, sizeof text);
    if (length < 0) return errno_code();
    if (length == 0) return errno_code(ENOENT);
    rest_.assign(text, static_cast<std::size_t>(length));
    rest_ += remaining;
    if (rest_.front() == '/') return to_root();
    return {};
}

/// Takes `next` as the directory to go on from, or as the result.
Result<void> Walk::enter(UniqueFd next, const std::string& name, bool last, bool slash) {
    struct stat info {};
    if (::fstat(next.get(), &info) != 0) return errno_code();
    if ((!last || slash) && !S_ISDIR(info.st_mode)) return errno_code(ENOTDIR);
    if (!last) {
        current_ = std::move(next);
        ++depth_;
        return {};
    }
    result_.object = std::move(next);
    result_.parent = name.empty() ? UniqueFd{} : std::move(current_);
    result_.leaf = name;
    result_.trailing_slash = slash;
    done_ = true;
    return {};
}

/// The kernel shows a process its own descriptors, whoever owns their directory (fs/proc/fd.c).
bool Walk::in_own_proc() const {
    std::string path;
    if (!kernel::reads_less_than_it_may() || !in_procfs(current_.get()) ||
        !kernel::path_of(current_.get(), path))
        return false;
    const auto caller = kernel::own_numbers(options_.thread);
    return caller && (path + '/').starts_with("/proc/" + std::to_string(caller->process) + '/');
}

UniqueFd Walk::open_next(const std::string& name) {
    std::optional<kernel::ReadingCaller> reading;
    if (in_own_proc()) reading.emplace();
    return open_component(current_.get(), name.c_str());
}

/// Resolves the next component.
Result<Step> Walk::step() {
    const std::size_t begin = rest_.find_first_not_of('/');
    if (begin == std::string::npos) {  // "/", or what a link to a directory left over
        auto entered = enter(std::move(current_), {}, true, false);
        if (!entered) return entered.error();
        return Step::done;
    }
    const std::size_t end = std::min(rest_.find('/', begin), rest_.size());
    const std::string name = rest_.substr(begin, end - begin);
    const std::string after = rest_.substr(end);
    const bool last = after.find_first_not_of('/') == std::string::npos;
    if (name == "." || name == "..") {
        if (name == "..") {
            auto up = parent_step();
            if (!up) return up.error();
        } else if (!UniqueFd(::openat(current_.get(), ".", O_PATH | O_CLOEXEC))) {
            return errno_code();  // may not be searched; access(2) would look at the real ids
        }
        rest_ = after;
        return Step::more;
    }
    UniqueFd next = open_next(name);
    if (!next) {
        if (errno != ENOENT || !last) return errno_code();
        result_.parent = std::move(current_);
        result_.leaf = name;
        result_.trailing_slash = !after.empty();
        return Step::done;
    }
    struct stat info {};
    if (::fstat(next.get(), &info) != 0) return errno_code();
    auto same = check_mount(next.get());
    if (!same) return same.error();
    Result<void> moved;
    if (S_ISLNK(info.st_mode) && (!last || !after.empty() || options_.follow == Follow::yes)) {
        moved = follow_link(name, next, info, after, last);
    } else {
        rest_ = after;
        moved = enter(std::move(next), name, last, !after.empty());
    }
    if (!moved) return moved.error();
    return done_ ? Step::done : Step::more;
}

Result<Walked> Walk::run() {
    if (rest_.empty()) return errno_code(ENOENT);
    auto started = start();
    if (!started) return started.error();
    for (;;) {
        const auto more = step();
        if (!more) return more.error();
        if (*more == Step::done) return std::move(result_);
    }
}

}  // namespace

Result<Walked> walk(int base, std::string_view path, const WalkOptions& options) {
    return Walk(base, path, options).run();
}

}  // namespace callgate::calls
