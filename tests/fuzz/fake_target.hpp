// The memory and the descriptors of a fuzzed call's "target". (Its kernel:
// tests/fakes/notification_source.hpp.)
//
// The target is this very process: process_vm_readv(2) on one's own memory reads, and fails, as it does on
// another's. Its memory is a few pages at a fixed address, between pages that nobody can read. So inputs can
// hold pointers, and every structure can end where memory does.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace callgate::fuzz {

inline constexpr std::uint64_t memory_begin = 0x10000000;
inline constexpr std::size_t page = 4096;
inline constexpr std::size_t memory_size = 8 * page;

/// Maps the memory; once, at the start.
void map_memory();
/// Fills the memory. Bytes that do not fit are left out; the rest is zero. `at_end`: the bytes end with it.
void fill_memory(std::span<const std::uint8_t> bytes, bool at_end);

/// Whether something of the fuzzer itself may lie at an address. The fuzzer finds such addresses where
/// pointers are compared. A call that writes to its caller's memory must not be led there.
[[nodiscard]] bool may_be_ours(std::uint64_t address);

/// Descriptors of every kind that calls take, at the numbers from `first_descriptor` on. They are sockets of
/// each family and type that the filter leaves, a pipe, a memfd, a directory and a pidfd. None blocks. Each
/// input gets new ones.
inline constexpr int first_descriptor = 100;
void open_descriptors();
/// With the descriptors that were sent through them.
void close_descriptors();

}  // namespace callgate::fuzz
