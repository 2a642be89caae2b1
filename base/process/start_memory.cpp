#include "base/process/start_memory.hpp"

#include <malloc.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>

// Of the linker (end(3)).
extern "C" char __data_start, _end;

namespace callgate::start_memory {

namespace {

constexpr std::uintptr_t page = 4096;

/// Whole pages of it. Refused by older kernels (before 5.14): then each page comes by its own fault.
void populate(void* block, std::size_t size) {
    const auto address = reinterpret_cast<std::uintptr_t>(block);
    const std::uintptr_t first = (address + page - 1) & ~(page - 1);
    const std::uintptr_t end = (address + size) & ~(page - 1);
    if (first < end) (void)::madvise(reinterpret_cast<void*>(first), end - first, MADV_POPULATE_WRITE);
}

/// The larger blocks of a start: too small to be mapped by themselves, so that malloc gives them from its
/// heap.
void populate_heap() {
    constexpr std::size_t larger_blocks = 24 * page;
    void* const block = std::malloc(larger_blocks);
    if (block == nullptr) return;
    populate(block, larger_blocks);
    std::free(block);
}

}  // namespace

void begin() {
    if (state.mapping != nullptr) return;
    void* const memory =
        ::mmap(nullptr, room, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) return;
    populate(memory, given_at_once);
    populate_heap();
    state.mapping = static_cast<std::byte*>(memory);
    gives = true;
}

void make_own() {
    populate(&__data_start, static_cast<std::size_t>(&_end - &__data_start));
    const std::size_t heap = ::mallinfo2().arena;
    populate(static_cast<std::byte*>(::sbrk(0)) - heap, heap);
    if (std::byte* const mapping = state.mapping.load(std::memory_order_relaxed))
        populate(mapping, state.given);
}

void end() { gives = false; }

}  // namespace callgate::start_memory
