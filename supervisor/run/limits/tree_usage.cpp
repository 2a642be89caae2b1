#include "supervisor/run/limits/tree_usage.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <optional>
#include <set>
#include <sstream>
#include <string>
#include <string_view>

#include "base/directory.hpp"
#include "base/test_switch.hpp"
#include "base/unique_fd.hpp"
#include "supervisor/run/limits/disk_usage.hpp"

namespace callgate::limits {

namespace {

const std::uint64_t page_size = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
const std::uint64_t ticks_per_second = static_cast<std::uint64_t>(::sysconf(_SC_CLK_TCK));
constexpr std::uint64_t tree_block_size = 512;  // st_blocks, stat(2)

std::string of_process(pid_t pid, const char* what) { return "/proc/" + std::to_string(pid) + "/" + what; }

/// The start of a file of /proc, which holds the numbers; empty if it cannot be read.
std::string_view read_start(const std::string& path, std::array<char, 4096>& buffer) {
    const UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    if (!file) return {};
    const ssize_t length = ::read(file.get(), buffer.data(), buffer.size());
    return {buffer.data(), static_cast<std::size_t>(std::max<ssize_t>(length, 0))};
}

/// The number that follows "KEY:" at the beginning of a line; 0 if there is none.
std::uint64_t number_of(std::string_view text, std::string_view key) {
    for (std::size_t line = 0; line < text.size();) {
        const std::string_view rest = text.substr(line);
        if (rest.starts_with(key) && rest.substr(key.size()).starts_with(':')) {
            std::string_view value = rest.substr(key.size() + 1);
            value.remove_prefix(std::min(value.find_first_not_of(" \t"), value.size()));
            std::uint64_t number = 0;
            std::from_chars(value.data(), value.data() + value.size(), number);
            return number;
        }
        const std::size_t end = rest.find('\n');
        if (end == std::string_view::npos) break;
        line += end + 1;
    }
    return 0;
}

std::string of_thread(pid_t pid, pid_t thread, const char* what) {
    return of_process(pid, "task/") + std::to_string(thread) + "/" + what;
}

/// Calls `visit` with the numbers of the process's threads.
template <typename Visit>
void for_each_thread(pid_t pid, Visit visit) {
    const Directory tasks(::opendir(of_process(pid, "task").c_str()));
    while (const dirent* entry = tasks ? ::readdir(tasks.get()) : nullptr) {
        if (const int thread = std::atoi(entry->d_name); thread > 0) visit(thread);
    }
}

/// The resident pages of a process whose first thread has ended: the kernel shows them with the others only.
std::uint64_t pages_of_others(pid_t pid, pid_t& thread) {
    std::uint64_t pages = 0;
    for_each_thread(pid, [&](pid_t one) {
        if (one == pid || pages != 0) return;
        std::array<char, 4096> buffer;
        std::string_view text = read_start(of_thread(pid, one, "statm"), buffer);
        text.remove_prefix(std::min(text.find(' '), text.size()));
        text.remove_prefix(std::min<std::size_t>(1, text.size()));
        std::from_chars(text.data(), text.data() + text.size(), pages);
        if (pages != 0) thread = one;
    });
    return pages;
}

/// The place of POSIX shared memory and semaphores (shm_overview(7)).
const std::string shared_memory_place = "/dev/shm";

DiskUsage named_shared_memory() { return disk_usage({shared_memory_place}); }

/// A file of which a process maps a part: device, inode and name.
struct MappedFile {
    dev_t device = 0;
    ino_t inode = 0;
    std::string name;
};

/// A line of /proc/PID/maps (proc(5)); nothing for one without a file, or whose file has a name.
std::optional<MappedFile> unlinked_file(const std::string& line) {
    constexpr std::string_view gone = " (deleted)";
    if (!line.ends_with(gone)) return std::nullopt;
    unsigned major = 0, minor = 0;
    unsigned long inode = 0;
    int name = 0;
    if (std::sscanf(line.c_str(), "%*s %*s %*s %x:%x %lu %n", &major, &minor, &inode, &name) != 3)
        return std::nullopt;
    return MappedFile{makedev(major, minor), inode, line.substr(static_cast<std::size_t>(name))};
}

/// Unlinked files and memory files that are open or mapped, each counted once.
class OpenFiles {
public:
    explicit OpenFiles(const std::vector<dev_t>& devices) : devices_(devices) {}

    /// Each thread may have descriptors of its own (CLONE_FILES, clone(2)). `first`: one that lives.
    void add_process(pid_t pid, bool several, pid_t first) {
        add_mapped(of_thread(pid, first, "maps"));
        add(AT_FDCWD, of_process(pid, "exe").c_str(), "");
        if (!several || !check_enabled("memory-of-threads")) return add_all(of_process(pid, ""));
        for_each_thread(pid, [&](pid_t thread) { add_all(of_thread(pid, thread, "")); });
    }
    /// After all processes were added.
    [[nodiscard]] HiddenBytes bytes() const {
        HiddenBytes bytes = bytes_;
        bytes.unlisted |=
            std::ranges::any_of(mapped_, [&](const auto& one) { return !counted_.contains(one); });
        return bytes;
    }

private:
    /// The kernel does not say how large a mapped file is. System V segments are listed elsewhere.
    void add_mapped(const std::string& path) {
        if (!check_enabled("memory-mapped")) return;
        std::ifstream maps(path);
        for (std::string line; std::getline(maps, line);) {
            const auto file = unlinked_file(line);
            if (!file || file->name.starts_with("/SYSV")) continue;
            const bool in_memory = file->name.starts_with("/memfd:") || file->name == "/dev/zero (deleted)" ||
                                   file->name.starts_with(shared_memory_place + '/');
            if (in_memory == devices_.empty()) mapped_.emplace(file->device, file->inode);
        }
    }
    void add_all(const std::string& of) {
        const Directory directory(::opendir((of + "fd").c_str()));
        if (!directory) {
            bytes_.unlisted |= errno == EACCES && check_enabled("memory-not-dumpable");
            return;
        }
        while (const dirent* entry = ::readdir(directory.get())) {
            if (entry->d_name[0] != '.') add(::dirfd(directory.get()), entry->d_name, of);
        }
    }
    void add(int directory, const char* name, const std::string& of) {
        struct stat status {};
        // stat(2) of the link asks only for the open inode; wanted are regular files without a name.
        if (::fstatat(directory, name, &status, 0) != 0) {
            bytes_.unlisted |= errno == EACCES && check_enabled("memory-not-dumpable");
            return;
        }
        if (S_ISSOCK(status.st_mode)) return add_in_flight(of + "fdinfo/" + name);
        if (!S_ISREG(status.st_mode) || status.st_nlink != 0) return;
        if (!counted_.emplace(status.st_dev, status.st_ino).second) return;
        const auto size = static_cast<std::uint64_t>(status.st_blocks) * tree_block_size;
        std::array<char, 16> link{};
        const ssize_t length = ::readlinkat(directory, name, link.data(), link.size());
        const std::string_view target(link.data(), static_cast<std::size_t>(std::max<ssize_t>(length, 0)));
        if (target.starts_with("/memfd:") || target.starts_with("/dev/shm/"))
            bytes_.memory += size;
        else if (std::find(devices_.begin(), devices_.end(), status.st_dev) != devices_.end())
            bytes_.unnamed += size;
    }
    /// The kernel says how many descriptors wait in a unix socket, not which (unix_show_fdinfo, af_unix.c).
    void add_in_flight(const std::string& information) {
        if (bytes_.unlisted || !check_enabled("memory-in-flight")) return;
        std::array<char, 4096> buffer;
        bytes_.unlisted = number_of(read_start(information, buffer), "scm_fds") != 0;
    }

    const std::vector<dev_t>& devices_;
    std::set<std::pair<dev_t, ino_t>> counted_, mapped_;
    HiddenBytes bytes_;
};

/// Resident and swapped bytes of the run's own segments. /proc/sysvipc/shm (proc(5)) has both; shmctl(2) has
/// only the size that the target asked for.
std::uint64_t segments(const agent::CreatedIpc& made) {
    const auto& ids = made.ids[static_cast<std::size_t>(agent::ObjectKind::memory)];
    std::set<long long> own;
    for (std::uint32_t index = 0; index < ids.count.load(); ++index) own.insert(ids.values[index].load());
    if (own.empty()) return 0;
    std::ifstream table("/proc/sysvipc/shm");
    std::string line;
    std::getline(table, line);  // the heading
    std::uint64_t bytes = 0;
    while (std::getline(table, line)) {
        std::istringstream fields(line);
        std::array<long long, 16> numbers{};  // key shmid perms ... rss swap
        for (long long& number : numbers) fields >> number;
        if (fields && own.count(numbers[1]) != 0)
            bytes += static_cast<std::uint64_t>(numbers[14] + numbers[15]);
    }
    return bytes;
}

}  // namespace

TreeMeter::TreeMeter(pid_t guardian, const agent::CreatedIpc& made, const agent::CreatedIpc& by_nested)
    : guardian_(guardian), made_{&made, &by_nested}, named_at_start_(named_shared_memory().bytes) {}

TreeUsage TreeMeter::read() {
    TreeUsage usage;
    for (auto& [identity, seen] : seen_) seen.current = false;
    std::uint64_t reaped = 0, own = 0;
    // The guardian forks only the command, so every process that it has reaped belongs to the tree.
    if (const auto guardian = read_process(guardian_)) reaped = guardian->children_ticks;
    for_each_descendant(guardian_, [&](const Process& process) {
        Seen& seen = seen_[{process.pid, process.start_time}];
        seen.ticks = process.ticks;
        seen.threads = process.threads;
        seen.parent = process.parent;
        seen.thread = process.pid;
        std::uint64_t pages = process.resident_pages;
        const bool first_ended = process.alive() && (process.state == 'Z' || process.state == 'X');
        if (first_ended && check_enabled("memory-of-first"))
            pages = pages_of_others(process.pid, seen.thread);
        seen.resident = pages * page_size;
        seen.current = true;
        seen.alive = process.alive();
        own += process.ticks;
        reaped += process.children_ticks;
        if (!process.alive()) return;
        usage.tasks += process.threads;
        usage.resident += seen.resident;
    });
    for (auto one = seen_.begin(); one != seen_.end();) {
        if (one->second.current) {
            ++one;
            continue;
        }
        ended_ticks_ += one->second.ticks;
        ended_written_ += one->second.written;
        one = seen_.erase(one);
    }
    // Each sum counts processes that the other misses: the kernel's the short-lived ones, ours the ones that
    // no parent waited for.
    max_ticks_ = std::max({max_ticks_, own + reaped, own + ended_ticks_});
    usage.cpu = std::chrono::milliseconds(max_ticks_ * 1000 / ticks_per_second);
    return usage;
}

bool TreeMeter::borrows(pid_t pid, const Seen& seen) const {
    constexpr int kcmp_memory = 1;
    const auto parent = seen_.lower_bound({seen.parent, 0});
    return parent != seen_.end() && parent->first.first == seen.parent && check_enabled("memory-once") &&
           ::syscall(SYS_kcmp, pid, seen.parent, kcmp_memory, 0, 0) == 0;
}

std::uint64_t TreeMeter::memory(std::uint64_t gained, std::uint64_t enough) const {
    std::uint64_t bytes = 0, shared = 0;
    std::array<char, 4096> buffer;
    std::vector<const std::pair<const Identity, Seen>*> largest_first;
    for (const auto& one : seen_) largest_first.push_back(&one);
    std::ranges::sort(largest_first, std::greater(), [](const auto* one) { return one->second.resident; });
    for (const auto* const one : largest_first) {
        if (bytes > enough) return bytes;
        const auto& [identity, seen] = *one;
        if (borrows(identity.first, seen)) continue;
        const std::string_view text =
            read_start(of_thread(identity.first, seen.thread, "smaps_rollup"), buffer);
        if (text.empty()) {
            // The process has ended, and holds no memory, or its maps cannot be read. What it borrowed at the
            // last reading it may have given back since.
            const auto now = read_process(identity.first);
            if (now && now->alive() && now->start_time == identity.second)
                bytes += seen.thread == identity.first ? now->resident_pages * page_size : seen.resident;
            continue;
        }
        bytes += number_of(text, "Pss") * 1024;
        shared += number_of(text, "Pss_Shmem") * 1024;
    }
    const HiddenBytes found = hidden({});
    std::uint64_t hidden_bytes = found.memory;
    const DiskUsage named = named_shared_memory();
    if (named.bytes > named_at_start_ && check_enabled("memory-named"))
        hidden_bytes += named.bytes - named_at_start_;
    if (found.unlisted || !named.whole) hidden_bytes = std::max(hidden_bytes, gained);
    return bytes + (hidden_bytes > shared ? hidden_bytes - shared : 0);
}

std::vector<Process> TreeMeter::living() const {
    std::vector<Process> all;
    for (const auto& [identity, seen] : seen_) {
        if (!seen.alive) continue;
        Process& one = all.emplace_back();
        one.pid = identity.first;
        one.start_time = identity.second;
    }
    return all;
}

std::uint64_t TreeMeter::written() {
    std::uint64_t bytes = ended_written_;
    std::array<char, 4096> buffer;
    for (auto& [identity, seen] : seen_) {
        const std::string_view text = read_start(of_process(identity.first, "io"), buffer);
        seen.written = std::max(seen.written, number_of(text, "wchar"));
        bytes += seen.written;
    }
    return bytes;
}

HiddenBytes TreeMeter::hidden(const std::vector<dev_t>& devices) const {
    OpenFiles files(devices);
    for (const auto& [identity, seen] : seen_)
        files.add_process(identity.first, seen.threads > 1, seen.thread);
    HiddenBytes bytes = files.bytes();
    // Beside segments of a nested run its callgate lives, into which nobody may look: `unlisted`.
    bytes.memory += segments(*made_[0]);
    return bytes;
}

SharedNames TreeMeter::shared_names() const {
    constexpr std::uint64_t each = 1024;  // of the kernel's memory for an inode and its name, about
    std::set<std::pair<std::uint64_t, std::uint64_t>> own;
    for (const agent::CreatedIpc* const made : made_)
        for (std::uint32_t index = 0; index < made->shared_files.count.load(); ++index)
            own.emplace(made->shared_files.values[index].inode.load(),
                        made->shared_files.values[index].born.load());
    const Directory place(own.empty() ? nullptr : ::opendir(shared_memory_place.c_str()));
    std::vector<std::string> directories;
    while (const dirent* entry = place ? ::readdir(place.get()) : nullptr) {
        if (entry->d_type != DT_DIR) continue;
        const auto file = agent::shared_file(::dirfd(place.get()), entry->d_name);
        if (file && own.contains({file->inode, file->born}))
            directories.push_back(shared_memory_place + '/' + entry->d_name);
    }
    const DiskUsage usage = disk_usage(directories);
    return {usage.others + usage.names * each, usage.whole};
}

std::uint64_t shared_memory_of_host() {
    std::array<char, 4096> buffer;
    return number_of(read_start("/proc/meminfo", buffer), "Shmem") * 1024;
}

std::uint64_t memory_of_host() {
    std::array<char, 4096> buffer;
    const std::string_view text = read_start("/proc/meminfo", buffer);
    const std::uint64_t swap = number_of(text, "SwapTotal"), unused = number_of(text, "SwapFree");
    return (number_of(text, "AnonPages") + number_of(text, "Shmem") + (swap > unused ? swap - unused : 0)) *
           1024;
}

}  // namespace callgate::limits
