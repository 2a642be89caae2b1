#include "supervisor/kernel/memory_file.hpp"

#include <fcntl.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cinttypes>
#include <cstdio>
#include <memory>

#include "base/unique_fd.hpp"
#include "supervisor/kernel/target.hpp"

namespace callgate::kernel {

namespace {

enum class Access : char { read = 'r', write = 'w' };

struct CloseFile {
    void operator()(FILE* file) const { std::fclose(file); }
};

/// The number of bytes from `address` on that the thread itself could touch, at most `size`.
Result<std::size_t> reachable(pid_t thread, std::uint64_t address, std::size_t size, Access access) {
    const std::unique_ptr<FILE, CloseFile> maps(std::fopen(ProcPath(thread, "maps").text, "re"));
    if (!maps) return errno_code(errno == EACCES ? EPERM : errno == ENOENT ? ESRCH : errno);
    std::uint64_t end = address;  // end of the reachable bytes so far
    char line[512];
    bool at_line = true;  // long names take several pieces
    while (std::fgets(line, sizeof line, maps.get()) != nullptr) {
        const bool begins = at_line;
        at_line = std::char_traits<char>::find(line, std::char_traits<char>::length(line), '\n') != nullptr;
        std::uint64_t from = 0, to = 0;
        char rights[5] = {};
        if (!begins || std::sscanf(line, "%" SCNx64 "-%" SCNx64 " %4s", &from, &to, rights) != 3) continue;
        if (to <= end) continue;
        if (from > end || rights[access == Access::read ? 0 : 1] != static_cast<char>(access)) break;
        end = to;
        if (end - address >= size) break;
    }
    if (end == address) return errno_code(EFAULT);
    return static_cast<std::size_t>(std::min<std::uint64_t>(end - address, size));
}

Result<UniqueFd> open_memory(pid_t thread, int flags) {
    UniqueFd file(::open(ProcPath(thread, "mem").text, flags | O_CLOEXEC));
    if (!file) return errno_code(errno == EACCES ? EPERM : errno == ENOENT ? ESRCH : errno);
    return file;
}

Result<std::size_t> moved(ssize_t bytes) {
    if (bytes < 0) return errno_code(errno == EIO || errno == EINVAL ? EFAULT : errno);
    if (bytes == 0) return errno_code(ESRCH);  // its memory is gone
    return static_cast<std::size_t>(bytes);
}

bool refused(ssize_t result) { return result < 0 && (errno == EPERM || errno == ENOSYS || errno == EACCES); }

}  // namespace

bool memory_calls_are_refused() {
    // A zero-byte read fails only if seccomp blocks the call.
    static const bool found = refused(::process_vm_readv(::getpid(), nullptr, 0, nullptr, 0, 0)) ||
                              refused(::process_vm_writev(::getpid(), nullptr, 0, nullptr, 0, 0));
    return found;
}

Result<std::size_t> read_memory_file(pid_t thread, std::uint64_t address, void* into, std::size_t size) {
    const auto file = open_memory(thread, O_RDONLY);
    if (!file) return file.error();
    const auto most = reachable(thread, address, size, Access::read);
    if (!most) return most.error();
    return moved(::pread(file->get(), into, *most, static_cast<off_t>(address)));
}

Result<std::size_t> write_memory_file(pid_t thread, std::uint64_t address, const void* from,
                                      std::size_t size) {
    const auto file = open_memory(thread, O_WRONLY);
    if (!file) return file.error();
    const auto most = reachable(thread, address, size, Access::write);
    if (!most) return most.error();
    return moved(::pwrite(file->get(), from, *most, static_cast<off_t>(address)));
}

}  // namespace callgate::kernel
