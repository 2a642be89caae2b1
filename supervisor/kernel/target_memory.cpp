#include "supervisor/kernel/target_memory.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cinttypes>
#include <climits>
#include <cstdio>
#include <cstring>
#include <memory>

#include "base/unique_fd.hpp"
#include "supervisor/kernel/acting_identity.hpp"
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

constexpr std::uint64_t page = 4096;

/// A single process_vm_readv: returns the number of bytes that could be read, at least 1.
Result<std::size_t> read_some(pid_t thread, std::uint64_t address, void* into, std::size_t size) {
    const ReadingCaller reading;
    if (memory_calls_are_refused()) return read_memory_file(thread, address, into, size);
    const iovec local{into, size};
    const iovec remote{reinterpret_cast<void*>(address), size};  // NOLINT: an address of the target's
    const ssize_t got = ::process_vm_readv(thread, &local, 1, &remote, 1, 0);
    if (got < 0) return errno_code();
    if (got == 0) return errno_code(EFAULT);
    return static_cast<std::size_t>(got);
}

/// The same with process_vm_writev.
Result<std::size_t> write_some(pid_t thread, std::uint64_t address, const void* from, std::size_t size) {
    const ReadingCaller reading;
    if (memory_calls_are_refused()) return write_memory_file(thread, address, from, size);
    const iovec local{const_cast<void*>(from), size};
    const iovec remote{reinterpret_cast<void*>(address), size};  // NOLINT: an address of the target's
    const ssize_t put = ::process_vm_writev(thread, &local, 1, &remote, 1, 0);
    if (put < 0) return errno_code();
    if (put == 0) return errno_code(EFAULT);
    return static_cast<std::size_t>(put);
}

/// Moves place after place. Returns the number of bytes before the first that `move_some` does not move.
template <class Bytes, class MoveSome>
std::size_t move_scattered(std::span<const iovec> places, Bytes bytes, MoveSome move_some) {
    std::size_t done = 0;
    for (const iovec& place : places) {
        const std::size_t size = std::min(place.iov_len, bytes.size() - done);
        for (std::size_t at = 0; at < size;) {
            const auto moved = move_some(reinterpret_cast<std::uint64_t>(place.iov_base) + at,
                                         bytes.subspan(done, size - at));
            if (!moved) return done;
            at += *moved;
            done += *moved;
        }
    }
    return done;
}

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

Result<void> read_memory(pid_t thread, std::uint64_t address, std::span<std::byte> into) {
    while (!into.empty()) {
        const auto got = read_some(thread, address, into.data(), into.size());
        if (!got) return got.error();
        into = into.subspan(*got);
        address += *got;
    }
    return {};
}

std::size_t read_scattered(pid_t thread, std::span<const iovec> places, std::span<std::byte> into) {
    if (places.empty() || into.empty()) return 0;
    const ReadingCaller reading;
    if (memory_calls_are_refused())
        return move_scattered(places, into, [thread](std::uint64_t address, std::span<std::byte> piece) {
            return read_memory_file(thread, address, piece.data(), piece.size());
        });
    const iovec local{into.data(), into.size()};
    const ssize_t got = ::process_vm_readv(thread, &local, 1, places.data(), places.size(), 0);
    return got < 0 ? 0 : static_cast<std::size_t>(got);
}

Result<void> read_string(pid_t thread, std::uint64_t address, std::size_t limit, std::string& into) {
    char buffer[PATH_MAX];
    limit = std::min(limit, sizeof buffer);
    std::size_t length = 0;
    while (length < limit) {
        // Most paths are short, so the first read stops at the end of the page or after 256 bytes. It costs
        // little and does not fail if the next page is missing.
        const std::uint64_t to_page_end = page - (address + length) % page;
        const std::size_t want = std::min({static_cast<std::size_t>(to_page_end), limit - length,
                                           length == 0 ? std::size_t{256} : sizeof buffer});
        const auto got = read_some(thread, address + length, buffer + length, want);
        if (!got) return got.error();
        if (const void* end = std::memchr(buffer + length, 0, *got)) {
            into.assign(buffer, static_cast<std::size_t>(static_cast<const char*>(end) - buffer));
            return {};
        }
        length += *got;
    }
    return errno_code(ENAMETOOLONG);
}

Result<void> read_path(pid_t thread, std::uint64_t address, std::string& into) {
    return read_string(thread, address, PATH_MAX, into);
}

std::size_t write_scattered(pid_t thread, std::span<const iovec> places, std::span<const std::byte> from) {
    if (places.empty() || from.empty()) return 0;
    const ReadingCaller reading;
    if (memory_calls_are_refused())
        return move_scattered(places, from,
                              [thread](std::uint64_t address, std::span<const std::byte> piece) {
                                  return write_memory_file(thread, address, piece.data(), piece.size());
                              });
    const iovec local{const_cast<std::byte*>(from.data()), from.size()};
    const ssize_t put = ::process_vm_writev(thread, &local, 1, places.data(), places.size(), 0);
    return put < 0 ? 0 : static_cast<std::size_t>(put);
}

Result<void> write_memory(pid_t thread, std::uint64_t address, std::span<const std::byte> from) {
    while (!from.empty()) {
        const auto put = write_some(thread, address, from.data(), from.size());
        if (!put) return put.error();
        from = from.subspan(*put);
        address += *put;
    }
    return {};
}

}  // namespace callgate::kernel
