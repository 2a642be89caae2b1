#include "supervisor/start_memory.hpp"

#include <sys/mman.h>

namespace callgate::start_memory {

void begin() {
    if (state.mapping != nullptr) return;
    void* const memory =
        ::mmap(nullptr, room, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) return;
    state.mapping = static_cast<std::byte*>(memory);
    gives = true;
}

void end() { gives = false; }

}  // namespace callgate::start_memory
