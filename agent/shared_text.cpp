#include "agent/shared_text.hpp"

#include <sys/mman.h>

#include <cerrno>
#include <cstring>
#include <utility>

namespace callgate::agent {

boost::system::result<SharedText> SharedText::make() {
    void* const memory = ::mmap(nullptr, sizeof(Memory), PROT_READ | PROT_WRITE,
                                MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) return boost::system::error_code(errno, boost::system::system_category());
    return SharedText(static_cast<Memory*>(memory));  // zeroed memory means no text
}

SharedText::SharedText(SharedText&& other) noexcept
    : memory_(std::exchange(other.memory_, nullptr)), used_(other.used_) {}

SharedText::~SharedText() {
    if (memory_ != nullptr) ::munmap(memory_, sizeof(Memory));
}

bool SharedText::set(std::string_view text) {
    if (text.size() > capacity - used_) return false;
    std::memcpy(memory_->bytes + used_, text.data(), text.size());
    memory_->current.store(std::uint64_t{used_} << 32U | text.size(), std::memory_order_release);
    used_ += text.size();
    return true;
}

std::string_view SharedText::get() const {
    const std::uint64_t current = memory_->current.load(std::memory_order_acquire);
    return {memory_->bytes + (current >> 32U), static_cast<std::uint32_t>(current)};
}

}  // namespace callgate::agent
