// The program's `operator new` and `operator delete`: a start's small blocks are not malloc's
// (supervisor/start_memory). Sanitizers keep their own, which see more.
#include <cstdlib>
#include <new>

#include "base/process/start_memory.hpp"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define CALLGATE_SANITIZED
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define CALLGATE_SANITIZED
#endif
#endif

#ifndef CALLGATE_SANITIZED

namespace start_memory = callgate::start_memory;

void* operator new(std::size_t size) {
    if (void* const block = start_memory::take(size)) return block;
    while (true) {
        if (void* const block = std::malloc(size == 0 ? 1 : size)) return block;
        const std::new_handler handler = std::get_new_handler();
        if (handler == nullptr) throw std::bad_alloc();
        handler();
    }
}

/// Of the mapping's the size is not known here: such a block is left where it is.
void operator delete(void* block) noexcept {
    if (!start_memory::holds(block)) std::free(block);
}

void operator delete(void* block, std::size_t size) noexcept {
    if (start_memory::holds(block))
        start_memory::give_back(block, size);
    else
        std::free(block);
}

#endif
