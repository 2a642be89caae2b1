#include "supervisor/kernel/target.hpp"

#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <charconv>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "base/directory.hpp"
#include "base/read_whole.hpp"
#include "base/test_switch.hpp"
#include "supervisor/kernel/acting_identity.hpp"
#include "supervisor/kernel/kept_sockets.hpp"

namespace callgate::kernel {

namespace {

constexpr unsigned pidfd_thread = O_EXCL;  // PIDFD_THREAD, Linux 6.9

/// Reads a small /proc file at once.
template <std::size_t Size>
Result<std::string_view> read_small(const char* path, char (&buffer)[Size]) {
    const ReadingCaller reading;
    UniqueFd fd(::open(path, O_RDONLY | O_CLOEXEC));
    if (!fd) return errno_code();
    const ssize_t got = ::read(fd.get(), buffer, Size - 1);
    if (got < 0) return errno_code();
    buffer[got] = 0;
    return std::string_view(buffer, static_cast<std::size_t>(got));
}

/// The number after "Name:\t" at the start of a line; `column` skips earlier numbers of the line.
std::uint64_t field(std::string_view text, std::string_view name, int base = 10, int column = 0) {
    std::size_t at = text.find(name);
    while (at != std::string_view::npos && at != 0 && text[at - 1] != '\n') at = text.find(name, at + 1);
    if (at == std::string_view::npos) return 0;
    at += name.size();
    std::uint64_t value = 0;
    for (int index = 0; index <= column; ++index) {
        while (at < text.size() && (text[at] == ' ' || text[at] == '\t')) ++at;
        const auto parsed = std::from_chars(text.data() + at, text.data() + text.size(), value, base);
        at = static_cast<std::size_t>(parsed.ptr - text.data());
    }
    return value;
}

/// "/proc/TID/<directory>/<number>"
struct DescriptorPath {
    DescriptorPath(pid_t thread, const char* directory, int number) {
        std::snprintf(text, sizeof text, "%s%d/%s/%d", proc_root, static_cast<int>(thread), directory,
                      number);
    }
    char text[64];
};

}  // namespace

const char* proc_root = "/proc/";

ProcPath::ProcPath(pid_t thread, const char* rest) {
    std::snprintf(text, sizeof text, "%s%d/%s", proc_root, static_cast<int>(thread), rest);
}

Result<UniqueFd> working_directory(pid_t thread) {
    const ReadingCaller reading;
    UniqueFd handle(::open(ProcPath(thread, "cwd").text, O_PATH | O_CLOEXEC | O_DIRECTORY));
    if (!handle) return errno_code();
    return handle;
}

Result<UniqueFd> descriptor_pin(pid_t thread, int number) {
    if (number < 0) return errno_code(EBADF);
    const ReadingCaller reading;
    UniqueFd handle(::open(DescriptorPath(thread, "fd", number).text, O_PATH | O_CLOEXEC));
    if (!handle) return errno_code(errno == ENOENT ? EBADF : errno);
    return handle;
}

Result<UniqueFd> open_descriptor_pin(pid_t thread, int number) {
    auto pin = descriptor_pin(thread, number);
    if (!pin) return pin;
    struct stat link {};
    const ReadingCaller reading;
    if (::lstat(DescriptorPath(thread, "fd", number).text, &link) != 0)
        return errno_code(errno == ENOENT ? EBADF : errno);
    // Its mode is the descriptor's access. An O_PATH handle has none, and so has one that is for ioctls
    // alone.
    if ((link.st_mode & (S_IRUSR | S_IWUSR)) != 0) return pin;
    const auto flags = descriptor_flags(thread, number);
    if (!flags) return flags.error();
    if ((*flags & O_PATH) != 0) return errno_code(EBADF);
    return pin;
}

Result<int> descriptor_flags(pid_t thread, int number) {
    if (number < 0) return errno_code(EBADF);
    const ReadingCaller reading;
    char buffer[512];
    const auto text = read_small(DescriptorPath(thread, "fdinfo", number).text, buffer);
    if (!text) return errno_code(text.error().value() == ENOENT ? EBADF : text.error().value());
    return static_cast<int>(field(*text, "flags:", 8));
}

Result<ThreadHandle> thread_handle(pid_t thread) {
    ThreadHandle handle{UniqueFd(static_cast<int>(::syscall(SYS_pidfd_open, thread, pidfd_thread)))};
    if (handle.fd) return handle;
    if (errno != EINVAL) return errno_code();
    // Before Linux 6.9 only thread group leaders have a pidfd.
    handle.fd.reset(static_cast<int>(::syscall(SYS_pidfd_open, thread, 0)));
    if (handle.fd) return handle;
    // The leader stands for another thread while they share the table.
    const auto found = status(thread);
    if (!found) return found.error();
    constexpr int kcmp_files = 2;
    const ReadingCaller reading;
    if (::syscall(SYS_kcmp, thread, found->process, kcmp_files, 0, 0) != 0) return errno_code(EPERM);
    handle.fd.reset(static_cast<int>(::syscall(SYS_pidfd_open, found->process, 0)));
    if (!handle.fd) return errno_code();
    handle.lasting = false;
    return handle;
}

Result<UniqueFd> descriptor_copy(const UniqueFd& handle, int number) {
    if (number < 0) return errno_code(EBADF);
    const ReadingCaller reading;
    UniqueFd copy(static_cast<int>(::syscall(SYS_pidfd_getfd, handle.get(), number, 0)));
    if (!copy) return errno_code();
    return copy;
}

Result<UniqueFd> descriptor_copy(pid_t thread, int number) {
    if (KeptSockets* const kept = KeptSockets::in_use()) return kept->of(thread, number);
    if (number < 0) return errno_code(EBADF);
    const auto handle = thread_handle(thread);
    if (!handle) return handle.error();
    return descriptor_copy(handle->fd, number);
}

void each_socket(pid_t process, const std::function<bool(int, ino_t)>& visit) {
    constexpr std::string_view prefix = "socket:[";
    const ReadingCaller reading;
    const Directory entries(::opendir(ProcPath(process, "fd").text));
    while (const dirent* const entry = entries ? ::readdir(entries.get()) : nullptr) {
        char target[64] = {};
        const ssize_t length = ::readlinkat(::dirfd(entries.get()), entry->d_name, target, sizeof target - 1);
        if (length < 0 || !std::string_view(target).starts_with(prefix)) continue;
        if (visit(std::atoi(entry->d_name), std::strtoull(target + prefix.size(), nullptr, 10))) return;
    }
}

Result<std::string> status_text(pid_t thread) {
    constexpr std::size_t max_size = std::size_t{1} << 20;  // the kernel allows 65536 groups
    const UniqueFd fd(::open(ProcPath(thread, "status").text, O_RDONLY | O_CLOEXEC));
    if (!fd) return errno_code();
    return read_whole(fd.get(), max_size);
}

namespace {

constexpr std::uint64_t bit_of(int signal) { return std::uint64_t{1} << static_cast<unsigned>(signal - 1); }

/// The signals that wake whoever does not block them: neither ignored nor without an effect.
std::uint64_t effective_signals(std::string_view text) {
    constexpr std::uint64_t without_effect =
        bit_of(SIGCHLD) | bit_of(SIGCONT) | bit_of(SIGURG) | bit_of(SIGWINCH);
    return ~field(text, "SigIgn:", 16) & (~without_effect | field(text, "SigCgt:", 16));
}

/// The first thread takes the process's signals, unless it blocks them or has ended (complete_signal,
/// kernel/signal.c). Returns those that it leaves to others.
std::uint64_t left_by_first(pid_t process) {
    const auto text = status_text(process);
    if (!text || text->find("\nState:\tZ") != std::string::npos) return ~std::uint64_t{0};
    return field(*text, "SigBlk:", 16);
}

}  // namespace

Result<Status> status(pid_t thread) {
    const ReadingCaller reading;
    const auto text = status_text(thread);
    if (!text) return text.error();
    Status found;
    found.process = static_cast<pid_t>(field(*text, "Tgid:"));
    found.parent = static_cast<pid_t>(field(*text, "PPid:"));
    found.tracer = static_cast<pid_t>(field(*text, "TracerPid:"));
    found.umask = static_cast<unsigned>(field(*text, "Umask:", 8));
    found.real_uid = static_cast<uid_t>(field(*text, "Uid:"));
    found.effective_uid = static_cast<uid_t>(field(*text, "Uid:", 10, 1));
    found.saved_uid = static_cast<uid_t>(field(*text, "Uid:", 10, 2));
    found.real_gid = static_cast<gid_t>(field(*text, "Gid:"));
    found.effective_gid = static_cast<gid_t>(field(*text, "Gid:", 10, 1));
    found.saved_gid = static_cast<gid_t>(field(*text, "Gid:", 10, 2));
    if (found.process == 0) return errno_code(ESRCH);
    const std::uint64_t taken = effective_signals(*text) & ~field(*text, "SigBlk:", 16);
    std::uint64_t of_process = field(*text, "ShdPnd:", 16) & taken;
    if (of_process != 0 && found.process != thread) of_process &= left_by_first(found.process);
    found.pending = of_process | (field(*text, "SigPnd:", 16) & taken);
    return found;
}

/// A kernel without PID namespaces writes neither line.
Result<OwnNumbers> own_numbers(pid_t thread) {
    const ReadingCaller reading;
    const auto text = status_text(thread);
    if (!text) return text.error();
    const auto last = [&](std::string_view name, std::string_view otherwise) {
        const std::size_t at = text->find(name);
        if (at == std::string_view::npos) return static_cast<pid_t>(field(*text, otherwise));
        const std::string_view line =
            std::string_view(*text).substr(at + 1, text->find('\n', at + 1) - at - 1);
        return static_cast<pid_t>(std::atoi(std::string(line.substr(line.find_last_of("\t ") + 1)).c_str()));
    };
    const OwnNumbers found{last("\nNStgid:", "Tgid:"), last("\nNSpid:", "Pid:")};
    if (found.process == 0 || found.thread == 0) return errno_code(ESRCH);
    return found;
}

/// The line has a number for each namespace.
bool lies_in_pid_namespace_beneath(pid_t process) {
    const ReadingCaller reading;
    const auto text = status_text(process);
    if (!text) return true;
    constexpr std::string_view name = "\nNSpid:\t";
    const std::size_t at = text->find(name);
    if (at == std::string_view::npos) return false;
    const std::string_view numbers = std::string_view(*text).substr(at + name.size());
    return numbers.substr(0, numbers.find('\n')).find('\t') != std::string_view::npos;
}

Result<Identity> identity(pid_t thread) {
    char buffer[1024];
    // Reads the task's own file: for /proc/PID/stat the kernel sums up the times of all threads, which is
    // slow for many.
    char path[64];
    std::snprintf(path, sizeof path, "%s%d/task/%d/stat", proc_root, static_cast<int>(thread),
                  static_cast<int>(thread));
    const auto text = read_small(path, buffer);
    if (!text) return text.error();
    const std::size_t end = text->rfind(')');
    if (end == std::string_view::npos) return errno_code(ESRCH);
    Identity found;
    found.process = thread;
    // Fields after the name: state ppid pgrp session tty_nr ...; starttime is the 20th of them.
    std::size_t at = end + 2;
    for (int index = 0; index <= 19 && at < text->size(); ++index) {
        const std::size_t stop = std::min(text->find(' ', at), text->size());
        const char* first = text->data() + at;
        const char* last = text->data() + stop;
        if (index == 1) std::from_chars(first, last, found.parent);
        if (index == 4) std::from_chars(first, last, found.controlling_terminal);
        if (index == 19) std::from_chars(first, last, found.start_time);
        at = stop + 1;
    }
    return found;
}

void signal_thread(pid_t thread, int signal) {
    const ReadingCaller reading;
    if (const auto found = status(thread)) ::syscall(SYS_tgkill, found->process, thread, signal);
}

namespace {

/// The text of a link in /proc; empty if it cannot be read.
void link_text(const char* path, std::string& into) {
    char buffer[PATH_MAX];
    const ReadingCaller reading;
    const ssize_t length = ::readlink(path, buffer, sizeof buffer);
    into.assign(buffer, length > 0 ? static_cast<std::size_t>(length) : 0);
}

}  // namespace

void executable(pid_t thread, std::string& into) { link_text(ProcPath(thread, "exe").text, into); }

void directory_name(pid_t thread, int number, std::string& into) {
    link_text(number == AT_FDCWD ? ProcPath(thread, "cwd").text : DescriptorPath(thread, "fd", number).text,
              into);
}

std::optional<rlim_t> soft_limit(pid_t thread, Limit limit) {
    rlimit found{};
    const auto resource = limit == Limit::open_files ? RLIMIT_NOFILE : RLIMIT_FSIZE;
    if (::prlimit(thread, resource, nullptr, &found) == 0) return found.rlim_cur;
    char buffer[4096];
    const auto text = read_small(ProcPath(thread, "limits").text, buffer);
    const std::string_view name = limit == Limit::open_files ? "\nMax open files " : "\nMax file size ";
    const std::size_t at =
        text && check_enabled("limits-of-others") ? text->find(name) : std::string_view::npos;
    if (at == std::string_view::npos) return std::nullopt;
    const std::size_t first = text->find_first_not_of(' ', at + name.size());
    if (first == std::string_view::npos) return std::nullopt;
    const std::string_view word = text->substr(first);
    rlim_t value = RLIM_INFINITY;
    if (word.starts_with("unlimited")) return value;
    if (std::from_chars(word.data(), word.data() + word.size(), value).ec != std::errc()) return std::nullopt;
    return value;
}

bool descriptors_exhausted(pid_t thread) {
    const auto limit = soft_limit(thread, Limit::open_files);
    const ReadingCaller reading;
    if (!limit) return false;
    struct stat directory {};
    const ProcPath path(thread, "fd");
    // Since Linux 6.2 the size of /proc/PID/fd is the number of open descriptors.
    if (::stat(path.text, &directory) != 0 || static_cast<rlim_t>(directory.st_size) < *limit) return false;
    Directory entries(::opendir(path.text));
    if (!entries) return false;
    rlim_t below = 0;
    while (const dirent* entry = ::readdir(entries.get())) {
        if (entry->d_name[0] != '.' && std::strtoull(entry->d_name, nullptr, 10) < *limit) ++below;
    }
    return below >= *limit;
}

bool descends_from(pid_t process, pid_t ancestor) {
    pid_t current = process;
    for (int depth = 0; current > 1 && depth < 4096; ++depth) {
        if (current == ancestor) return true;
        const auto found = identity(current);
        if (!found && current == process) return false;
        // If an ancestor has just ended, its children have another parent by now.
        current = found ? found->parent : process;
    }
    return false;
}

int own_descriptors() {
    static const int handle =
        ::open((std::string(proc_root) + "self/fd").c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC);
    return handle;
}

PinPath::PinPath(int fd) {
    begin_ = static_cast<std::size_t>(std::snprintf(text, sizeof text, "%sself/fd/", proc_root));
    *std::to_chars(text + begin_, text + sizeof text - 1, fd).ptr = 0;
}

Result<void> path_of(int fd, std::string& into) {
    char buffer[PATH_MAX];
    const ssize_t length = ::readlinkat(own_descriptors(), PinPath(fd).number(), buffer, sizeof buffer);
    if (length < 0) return errno_code();
    into.assign(buffer, static_cast<std::size_t>(length));
    return {};
}

}  // namespace callgate::kernel
