#include "supervisor/kernel/target_memory.hpp"

#include <sys/uio.h>

#include <algorithm>
#include <climits>
#include <cstring>

#include "supervisor/kernel/memory_file.hpp"

namespace callgate::kernel {

namespace {

constexpr std::uint64_t page = 4096;

/// A single process_vm_readv: returns the number of bytes that could be read, at least 1.
Result<std::size_t> read_some(pid_t thread, std::uint64_t address, void* into, std::size_t size) {
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
