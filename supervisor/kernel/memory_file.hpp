// A thread's memory by /proc/TID/mem: where process_vm_readv(2) and process_vm_writev(2) are refused, as the
// profiles of containers may.
//
// The file lets its opener read and write what the thread itself cannot (proc(5): it forces), so
// /proc/TID/maps is asked first: what the real call could not touch is not touched here. A sibling that
// changes its maps meanwhile gains what it could have had by doing that earlier, in its own memory.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>

#include "base/result.hpp"

namespace callgate::kernel {

/// Whether a filter around us refuses process_vm_readv or process_vm_writev. Asked once in a process.
[[nodiscard]] bool memory_calls_are_refused();

/// As one process_vm_readv(2) with one place on each side: the number of bytes, at least 1. EFAULT where the
/// first byte cannot be read; EPERM, ESRCH.
[[nodiscard]] Result<std::size_t> read_memory_file(pid_t thread, std::uint64_t address, void* into,
                                                   std::size_t size);
/// As one process_vm_writev(2), the same.
[[nodiscard]] Result<std::size_t> write_memory_file(pid_t thread, std::uint64_t address, const void* from,
                                                    std::size_t size);

}  // namespace callgate::kernel
