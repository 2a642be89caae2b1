// A text in memory that supervisor and guardian share: the report of a lost supervisor. The guardian is
// forked before the text is known.
//
// Only the supervisor writes; at every moment the guardian sees one whole text.
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
    /// Bytes of all texts together. Unwritten parts take no memory.
    static constexpr std::size_t capacity = std::size_t{32} << 20U;

    /// Errors: ENOMEM.
    [[nodiscard]] static boost::system::result<SharedText> make();
    SharedText(SharedText&& other) noexcept;
    SharedText& operator=(SharedText&&) = delete;
    ~SharedText();

    /// Returns false if there is no room; the previous text then stays.
    bool set(std::string_view text);
    /// The current text, "" before the first. Async-signal-safe.
    [[nodiscard]] std::string_view get() const;

private:
    struct Memory {
        std::atomic<std::uint64_t> current;  // offset, and length in the low 32 bits
        char bytes[capacity];
    };
    explicit SharedText(Memory* memory) : memory_(memory) {}

    Memory* memory_;
    std::size_t used_ = 0;
};

}  // namespace callgate::agent
