// Reads the memory of a stopped thread, once, into copies of our own.
//
// An attacker controls every byte, may change it at any time, unmap it, or let it end at a page boundary. So
// nothing is read twice, and the copy is decided and used. A read by process_vm_readv(2) fails for addresses
// at which the real call would fail (PROT_NONE, unmapped). It is short at an unmapped page, so strings are
// read page by page (docs/dev/kernel-facts.md 22).
//
// Some containers' profiles refuse process_vm_readv(2) and process_vm_writev(2). /proc/TID/mem serves there.
// It lets its opener read and write memory that the thread itself cannot (proc(5): it forces). So
// /proc/TID/maps is checked first: memory that the real call could not touch is not touched here. A sibling
// that changes its maps meanwhile gains nothing: it could have done that earlier, in its own memory.
#pragma once

#include <sys/types.h>
#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "base/result.hpp"

namespace callgate::kernel {

/// Fills `into` from `address` of thread `thread`. EFAULT if any byte is not readable; ESRCH, EPERM
/// otherwise.
[[nodiscard]] Result<void> read_memory(pid_t thread, std::uint64_t address, std::span<std::byte> into);

/// Fills `into` from several places, one after the other, with one call. Returns the number of bytes before
/// the first that cannot be read. At most UIO_MAXIOV places.
[[nodiscard]] std::size_t read_scattered(pid_t thread, std::span<const iovec> places,
                                         std::span<std::byte> into);

/// A copy of the object of type T at `address`.
template <class T>
[[nodiscard]] Result<T> read_object(pid_t thread, std::uint64_t address) {
    T object;
    auto read = read_memory(thread, address, std::as_writable_bytes(std::span<T, 1>(&object, 1)));
    if (!read) return read.error();
    return object;
}

/// A path as getname(9) reads it: at most PATH_MAX bytes with the NUL. EFAULT, or ENAMETOOLONG if no NUL
/// comes. The empty string is returned as such. `into` keeps its capacity.
[[nodiscard]] Result<void> read_path(pid_t thread, std::uint64_t address, std::string& into);

/// The same for a string of which the kernel reads at most `limit` bytes, its NUL included (at most
/// PATH_MAX). ENAMETOOLONG if those have no NUL; EFAULT if memory that cannot be read comes first.
[[nodiscard]] Result<void> read_string(pid_t thread, std::uint64_t address, std::size_t limit,
                                       std::string& into);

/// Spreads `from` over several places with one call. Returns the number of bytes before the first that cannot
/// be written.
[[nodiscard]] std::size_t write_scattered(pid_t thread, std::span<const iovec> places,
                                          std::span<const std::byte> from);

/// Writes `from` to `address` of thread `thread`, as a call's result. Error: EFAULT.
[[nodiscard]] Result<void> write_memory(pid_t thread, std::uint64_t address, std::span<const std::byte> from);

/// Whether a filter around us refuses process_vm_readv or process_vm_writev. Determined once in a process.
[[nodiscard]] bool memory_calls_are_refused();

/// Reads by /proc/TID/mem, like one process_vm_readv(2) with one place on each side: returns the number of
/// bytes, at least 1. EFAULT if the first byte cannot be read; EPERM, ESRCH.
[[nodiscard]] Result<std::size_t> read_memory_file(pid_t thread, std::uint64_t address, void* into,
                                                   std::size_t size);
/// The same for process_vm_writev(2).
[[nodiscard]] Result<std::size_t> write_memory_file(pid_t thread, std::uint64_t address, const void* from,
                                                    std::size_t size);

}  // namespace callgate::kernel
