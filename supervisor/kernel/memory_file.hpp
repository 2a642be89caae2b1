// A thread's memory by /proc/TID/mem, for containers whose profiles refuse process_vm_readv(2) and
// process_vm_writev(2).
//
// The file lets its opener read and write memory that the thread itself cannot (proc(5): it forces). So
// /proc/TID/maps is checked first: memory that the real call could not touch is not touched here. A sibling
// that changes its maps meanwhile gains nothing: it could have done that earlier, in its own memory.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>

#include "base/result.hpp"

namespace callgate::kernel {

/// Whether a filter around us refuses process_vm_readv or process_vm_writev. Determined once in a process.
[[nodiscard]] bool memory_calls_are_refused();

/// Like one process_vm_readv(2) with one place on each side: returns the number of bytes, at least 1. EFAULT
/// if the first byte cannot be read; EPERM, ESRCH.
[[nodiscard]] Result<std::size_t> read_memory_file(pid_t thread, std::uint64_t address, void* into,
                                                   std::size_t size);
/// The same for process_vm_writev(2).
[[nodiscard]] Result<std::size_t> write_memory_file(pid_t thread, std::uint64_t address, const void* from,
                                                    std::size_t size);

}  // namespace callgate::kernel
