// Memory of a start: while a run is worked out, small blocks come from one mapping.
//
// Reading rules and planning make and drop some ten thousand small blocks, and malloc(3) took a fifth of that
// time. Here a block is one of that size that was dropped before, else the next bytes of a mapping: nothing
// is joined or searched. What a start usually takes is asked of the kernel at once: a fault for each page
// costs more than the page. The program's `operator new` and `operator delete` (cli/operators.cpp) ask here
// first; before `begin` and after `end` they are malloc and free.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>

namespace callgate::start_memory {

/// From here on small blocks of the calling thread come from the mapping, where there is memory for one;
/// those of other threads never do. Once a process.
void begin();

/// In a process that was forked since: the pages of the mapping, of malloc's heap and of the program's data
/// become its own now, and not one by one as they are written to. By its only thread.
void make_own();

/// From here on none does; those that were made stay good, and the mapping stays. By the same thread.
void end();

inline constexpr std::size_t step = 16;      // sizes are multiples of it; blocks are aligned as malloc's are
inline constexpr std::size_t largest = 512;  // larger blocks are malloc's
inline constexpr std::size_t room = 1U << 20U;
inline constexpr std::size_t given_at_once = 3U << 16U;  // of the room: what the default rules take

/// Private: only the thread that began comes to `lists` and `given`.
struct State {
    struct Dropped {
        Dropped* next;
    };
    std::atomic<std::byte*> mapping = nullptr;  // once there is one
    std::size_t given = 0;                      // bytes of it
    std::array<Dropped*, largest / step> lists{};

    static std::size_t list_of(std::size_t size) { return size == 0 ? 0 : (size - 1) / step; }
};
inline constinit State state;
inline constinit thread_local bool gives = false;  // to the thread that began, until it ends

/// A block of `size` bytes; null where malloc is to give one.
[[nodiscard]] inline void* take(std::size_t size) {
    if (!gives || size > largest) return nullptr;
    const std::size_t list = State::list_of(size);
    if (State::Dropped* const block = state.lists[list]) {
        state.lists[list] = block->next;
        return block;
    }
    const std::size_t bytes = (list + 1) * step;
    if (room - state.given < bytes) return nullptr;
    void* const block = state.mapping.load(std::memory_order_relaxed) + state.given;
    state.given += bytes;
    return block;
}

/// Whether the block is of the mapping. Any thread.
[[nodiscard]] inline bool holds(const void* block) {
    const std::byte* const first = state.mapping.load(std::memory_order_relaxed);
    return first != nullptr && block >= first && block < first + room;
}

/// A block that `holds`, of the size that it was taken with. By threads other than the one that began, and
/// after the end, it is left where it is.
inline void give_back(void* block, std::size_t size) {
    if (!gives) return;
    auto* const again = static_cast<State::Dropped*>(block);
    again->next = state.lists[State::list_of(size)];
    state.lists[State::list_of(size)] = again;
}

}  // namespace callgate::start_memory
