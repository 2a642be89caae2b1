#include "supervisor/calls/resolve.hpp"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <climits>
#include <iterator>

#include "base/directory.hpp"
#include "base/test_switch.hpp"
#include "supervisor/calls/foreign_memory.hpp"
#include "supervisor/kernel/acting_identity.hpp"
#include "supervisor/kernel/target.hpp"

namespace callgate::calls {

namespace {

constexpr std::string_view deleted_mark = " (deleted)";

UniqueFd pin_at(int base, const char* path, Follow follow, std::uint64_t resolve, int& error) {
    open_how how{};
    how.flags = O_PATH | O_CLOEXEC;
    if (follow == Follow::no) how.flags |= O_NOFOLLOW;
    how.resolve = resolve | RESOLVE_NO_MAGICLINKS;
    UniqueFd pin(static_cast<int>(::syscall(SYS_openat2, base, path, &how, sizeof how)));
    error = pin ? 0 : errno;
    return pin;
}

/// Only objects of file systems without a device (procfs, devpts, tmpfs ...) can be procfs: a cheap test
/// first.
bool lies_in_procfs(int fd, const struct stat& status) { return major(status.st_dev) == 0 && in_procfs(fd); }

/// Whether a fast resolution that failed can be believed. It cannot if a link on the way may have led through
/// callgate's own /proc/self.
bool failure_is_certain(int base, const char* path, Follow follow, std::uint64_t resolve, int error) {
    if (error == EACCES && kernel::reads_less_than_it_may()) return false;  // the caller's own /proc
    if (error == EXDEV) return true;  // only the flags give it, wherever /proc/self may lead
    if (error == ELOOP) return (resolve & RESOLVE_NO_SYMLINKS) != 0;
    int again = 0;
    const UniqueFd pin = pin_at(base, path, follow, resolve | RESOLVE_NO_SYMLINKS, again);
    return !pin && again == error;
}

WalkOptions walk_options(const PathRequest& request) {
    return {
        .thread = request.thread, .follow = request.follow, .resolve = request.resolve, .tree = request.tree};
}

dev_t memfd_device() {
    static const dev_t device = [] {
        const UniqueFd fd(::memfd_create("probe", MFD_CLOEXEC));
        struct stat info {};
        return fd && ::fstat(fd.get(), &info) == 0 ? info.st_dev : dev_t{0};
    }();
    return device;
}

/// "NAME (deleted)" is what the kernel writes for a name that is gone; a file may also be called that.
bool name_is_gone(const std::string& path, const struct stat& status) {
    if (!path.ends_with(deleted_mark)) return false;
    struct stat there {};
    if (::lstat(path.c_str(), &there) != 0) return true;
    return there.st_ino != status.st_ino || there.st_dev != status.st_dev;
}

std::string name_in_parent(int parent, const struct stat& child) {
    const UniqueFd readable(::openat(parent, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!readable) return {};
    Directory entries(::fdopendir(::fcntl(readable.get(), F_DUPFD_CLOEXEC, 0)));
    if (!entries) return {};
    while (const dirent* entry = ::readdir(entries.get())) {
        struct stat info {};
        const std::string_view name = entry->d_name;
        if (name == "." || name == "..") continue;
        if (::fstatat(parent, entry->d_name, &info, AT_SYMLINK_NOFOLLOW) != 0) continue;
        if (info.st_ino == child.st_ino && info.st_dev == child.st_dev) return entry->d_name;
    }
    return {};
}

/// A path longer than the kernel writes, put together upwards by ".." and inode numbers.
Result<std::string> long_path(int directory) {
    std::string path;
    UniqueFd current(::fcntl(directory, F_DUPFD_CLOEXEC, 0));
    struct stat here {};
    if (!current || ::fstat(current.get(), &here) != 0) return errno_code();
    for (;;) {
        std::string head;
        if (kernel::path_of(current.get(), head) && !head.empty() && head.front() == '/') {
            return head == "/" ? path : head + path;
        }
        UniqueFd up(::openat(current.get(), "..", O_PATH | O_DIRECTORY | O_CLOEXEC));
        if (!up) return errno_code();
        const std::string name = name_in_parent(up.get(), here);
        if (name.empty()) return errno_code(ENAMETOOLONG);
        path.insert(0, "/" + name);
        current = std::move(up);
        if (::fstat(current.get(), &here) != 0) return errno_code();
    }
}

/// A path without its last name, the name, and whether a slash follows it.
struct LastName {
    std::string_view head = ".", leaf = "/";
    bool trailing_slash = false;

    explicit LastName(std::string_view path) {
        const std::size_t last = path.find_last_not_of('/');
        if (last == std::string_view::npos) {
            head = path;
            return;
        }
        trailing_slash = last + 1 < path.size();
        leaf = path.substr(0, last + 1);
        const std::size_t slash = leaf.rfind('/');
        if (slash == std::string_view::npos) return;
        head = leaf.substr(0, slash + 1);
        leaf = leaf.substr(slash + 1);
    }
    [[nodiscard]] bool special() const { return leaf == "." || leaf == ".." || leaf == "/"; }
};

/// `path`: the parent's.
Place place_in(UniqueFd parent, std::string path, bool in_procfs, std::string_view leaf,
               bool trailing_slash) {
    Place place;
    place.in_procfs = in_procfs;
    place.parent = std::move(parent);
    place.path = std::move(path);
    if (place.path.empty() || place.path.back() != '/') place.path += '/';
    place.path += leaf;
    place.leaf = leaf;
    if (trailing_slash) place.leaf += '/';
    place.trailing_slash = trailing_slash;
    return place;
}

Result<Place> make_place(UniqueFd parent, std::string_view leaf, bool trailing_slash) {
    auto path = directory_path(parent.get());
    if (!path) return path.error();
    struct stat status {};
    if (::fstat(parent.get(), &status) != 0) return errno_code();
    const bool procfs = lies_in_procfs(parent.get(), status);
    return place_in(std::move(parent), std::move(*path), procfs, leaf, trailing_slash);
}

/// The object by walking, and its path by parent and leaf if the kernel cannot write it.
Result<Object> walked_object(const PathRequest& request) {
    auto walked = walk(request.base, request.path, walk_options(request));
    if (!walked) return walked.error();
    if (!walked->object) return errno_code(ENOENT);
    UniqueFd again(::fcntl(walked->object.get(), F_DUPFD_CLOEXEC, 0));
    auto object = describe(std::move(walked->object));
    if (object || object.error().value() != ENAMETOOLONG || !walked->parent || !again) return object;
    auto place = make_place(std::move(walked->parent), walked->leaf, false);
    if (!place) return place.error();
    Object named;
    if (::fstat(again.get(), &named.status) != 0) return errno_code();
    named.in_procfs = lies_in_procfs(again.get(), named.status);
    named.pin = std::move(again);
    named.path = std::move(place->path);
    return named;
}

}  // namespace

Result<std::string> directory_path(int directory) {
    std::string path;
    auto read = kernel::path_of(directory, path);
    if (read) return path;
    if (read.error().value() != ENAMETOOLONG) return read.error();
    return long_path(directory);
}

Result<Object> describe(UniqueFd pin) {
    Object object;
    if (::fstat(pin.get(), &object.status) != 0) return errno_code();
    auto read = kernel::path_of(pin.get(), object.path);
    if (!read && read.error().value() == ENAMETOOLONG && object.directory()) {
        auto built = long_path(pin.get());
        if (!built) return built.error();
        object.path = std::move(*built);
    } else if (!read) {
        return read.error();
    }
    object.in_procfs = lies_in_procfs(pin.get(), object.status);
    if (object.path.empty() || object.path.front() != '/') {
        // "pipe:[7]", "socket:[8]", "anon_inode:..." have no name; "(unreachable)/..." has one that is not
        // ours.
        object.unnamed = !object.path.starts_with("(unreachable)");
        object.unlinked = !object.unnamed;
        object.path.clear();
    } else if (name_is_gone(object.path, object.status)) {
        object.unnamed = object.status.st_dev == memfd_device();
        object.unlinked = !object.unnamed;
    } else if (!object.path.starts_with("/proc") && object.in_procfs) {
        // procfs under another name: no rule speaks of it, and callgate's own processes are in it too.
        object.unlinked = true;
    }
    object.pin = std::move(pin);
    return object;
}

namespace {

Result<Object> look_once(const PathRequest& request) {
    if (request.path.empty()) return errno_code(ENOENT);
    const std::string path(request.path);
    const int base = request.base < 0 ? AT_FDCWD : request.base;
    int error = 0;
    UniqueFd pin = pin_at(base, path.c_str(), request.follow, request.resolve, error);
    if (!pin) {
        if (failure_is_certain(base, path.c_str(), request.follow, request.resolve, error))
            return errno_code(error);
        return walked_object(request);
    }
    auto object = describe(std::move(pin));
    if (!object && object.error().value() == ENAMETOOLONG) return walked_object(request);
    if (object && object->in_procfs) return walked_object(request);
    return object;
}

}  // namespace

Result<Object> resolve_object(const PathRequest& request) {
    // Another thread may remove the name between the look at it and the look at its path. The next look finds
    // nothing there, or what stands there now. Only a link in /proc leads to a removed object each time.
    constexpr int looks = 4;
    for (int look = 1;; ++look) {
        auto object = look_once(request);
        if (!object || !object->unlinked || look == looks) return object;
    }
}

Result<Place> resolve_place(const PathRequest& request) {
    if (request.path.empty()) return errno_code(ENOENT);
    const LastName name(request.path);
    PathRequest parent_request = request;
    parent_request.path = name.head;
    parent_request.follow = Follow::yes;
    auto parent = resolve_object(parent_request);
    if (!parent) return parent.error();
    if (!parent->directory()) return errno_code(ENOTDIR);
    // An unreachable directory has no path in an Object; here it gets the kernel's text for it.
    auto place = parent->path.empty() ? make_place(std::move(parent->pin), name.leaf, name.trailing_slash)
                                      : place_in(std::move(parent->pin), std::move(parent->path),
                                                 parent->in_procfs, name.leaf, name.trailing_slash);
    if (place) place->special = name.special();
    return place;
}

Result<Place> resolve_place_beside(const Place& known, std::string_view known_path,
                                   const PathRequest& request) {
    const LastName first(known_path), second(request.path);
    if (request.path.empty() || first.head != second.head || first.special()) return resolve_place(request);
    UniqueFd parent(::fcntl(known.parent.get(), F_DUPFD_CLOEXEC, 0));
    if (!parent) return resolve_place(request);
    Place place = place_in(std::move(parent), known.path.substr(0, known.path.size() - first.leaf.size()),
                           known.in_procfs, second.leaf, second.trailing_slash);
    place.special = second.special();
    return place;
}

Result<Place> resolve_creation(const PathRequest& request) {
    if (request.resolve == 0) {
        auto place = resolve_place(request);
        struct stat there {};
        // The caller wants an existing link followed. A name that is not plain has rules of its own.
        if (place && !place->special && !place->trailing_slash &&
            ::fstatat(place->parent.get(), place->leaf.c_str(), &there, AT_SYMLINK_NOFOLLOW) != 0 &&
            errno == ENOENT) {
            return place;
        }
    }
    auto walked = walk(request.base, request.path, walk_options(request));
    if (!walked) return walked.error();
    if (walked->object) return errno_code(EEXIST);
    return make_place(std::move(walked->parent), walked->leaf, walked->trailing_slash);
}

pid_t process_of_proc(std::string_view path) {
    constexpr std::string_view proc = "/proc/";
    if (!path.starts_with(proc)) return 0;
    path.remove_prefix(proc.size());
    pid_t number = 0;
    const auto [end, error] = std::from_chars(path.data(), path.data() + path.size(), number);
    const bool whole = end == path.data() + path.size() || *end == '/';
    return error == std::errc() && whole && number > 0 ? number : 0;
}

bool in_proc_of_callgate(std::string_view path, pid_t guardian) {
    if (!check_enabled("own-processes")) return false;
    const pid_t number = process_of_proc(path);
    if (number == 0) return false;
    if (number == guardian) return true;
    const std::string own = "/proc/self/task/" + std::to_string(number);
    return ::access(own.c_str(), F_OK) == 0;
}

bool is_shown_to_all(std::string_view path) {
    const auto take_number = [&path] {
        const std::size_t end = std::min(path.find_first_not_of("0123456789"), path.size());
        path.remove_prefix(end);
        return end != 0 && (path.empty() || path.front() == '/');
    };
    constexpr std::string_view proc = "/proc/", tasks = "/task";
    if (!path.starts_with(proc)) return false;
    path.remove_prefix(proc.size());
    if (!take_number()) return false;
    if (path == tasks) return true;
    if (path.starts_with("/task/")) {
        path.remove_prefix(tasks.size() + 1);
        if (!take_number()) return false;
    }
    constexpr std::string_view names[] = {"", "/cmdline", "/comm", "/stat", "/statm", "/status"};
    return std::ranges::find(names, path) != std::end(names);
}

bool in_proc_of_outside_process(std::string_view path, pid_t guardian) {
    const pid_t number = process_of_proc(path);
    // A container's supervisor has no guardian: the container's own /proc shows no other process.
    return number != 0 && guardian > 0 && check_enabled("outside-process-files") &&
           !kernel::descends_from(number, guardian);
}

bool is_memory_beyond(std::string_view path, pid_t thread) {
    constexpr std::string_view memory = "/mem";
    const pid_t number = path.ends_with(memory) ? process_of_proc(path) : 0;
    if (number == 0 || !check_enabled("ptrace-scope")) return false;
    static const bool restricted = [] {
        const UniqueFd fd(::open("/proc/sys/kernel/yama/ptrace_scope", O_RDONLY | O_CLOEXEC));
        char digit = '0';
        return fd && ::read(fd.get(), &digit, 1) == 1 && digit != '0';
    }();
    if (!restricted) return false;
    const auto caller = kernel::status(thread), owner = kernel::status(number);
    return !caller || !owner || !kernel::descends_from(owner->process, caller->process);
}

}  // namespace callgate::calls
