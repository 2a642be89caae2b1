// A text that supervisor and guardian share: what the guardian would report in a lost supervisor's place. The
// guardian is forked before it is known what that is.
//
// The supervisor alone writes; at every moment the guardian sees one whole text.
#pragma once

#include <atomic>
#include <boost/system/result.hpp>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace callgate::agent {

/// Owns a mapping that children inherit.
class SharedText {
public:
    /// Bytes of all texts together. Only what is written takes memory.
    static constexpr std::size_t capacity = std::size_t{32} << 20U;

    /// ENOMEM.
    [[nodiscard]] static boost::system::result<SharedText> make();
    SharedText(SharedText&& other) noexcept;
    SharedText& operator=(SharedText&&) = delete;
    ~SharedText();

    /// False where there is no room: the text before it stays.
    bool set(std::string_view text);
    /// "" before the first. Async-signal-safe.
    [[nodiscard]] std::string_view get() const;

private:
    struct Memory {
        std::atomic<std::uint64_t> current;  // where it begins, and 32 bits of how long it is
        char bytes[capacity];
    };
    explicit SharedText(Memory* memory) : memory_(memory) {}

    Memory* memory_;
    std::size_t used_ = 0;
};

}  // namespace callgate::agent
