// A growing run of bytes that is written to once per record and kept between records.
//
// It owns its memory. `clear` keeps the memory, so that the usual path does not allocate. A buffer is not
// shared: each thread has its own. Lengths come from our own views; an attacker may have chosen the bytes.
#pragma once

#include <charconv>
#include <concepts>
#include <cstddef>
#include <cstring>
#include <memory>
#include <string_view>

namespace callgate {

class Buffer {
public:
    explicit Buffer(std::size_t capacity = 4096) : bytes_(new char[capacity]), capacity_(capacity) {}

    void clear() { size_ = 0; }
    [[nodiscard]] std::size_t size() const { return size_; }
    [[nodiscard]] char* data() { return bytes_.get(); }
    [[nodiscard]] std::string_view view() const { return {bytes_.get(), size_}; }

    /// Makes room for `count` more bytes. Bytes that are written there count only after `advance`.
    [[nodiscard]] char* reserve(std::size_t count) {
        if (capacity_ - size_ < count) grow(count);
        return bytes_.get() + size_;
    }
    void advance(std::size_t count) { size_ += count; }
    /// Removes the last `count` bytes.
    void drop(std::size_t count) { size_ -= count; }

    Buffer& operator<<(std::string_view text) {
        if (!text.empty()) std::memcpy(reserve(text.size()), text.data(), text.size());
        size_ += text.size();
        return *this;
    }
    Buffer& operator<<(char one) {
        *reserve(1) = one;
        ++size_;
        return *this;
    }
    /// Appends a number in decimal.
    template <std::integral Number>
    requires(!std::same_as<Number, char> && !std::same_as<Number, bool>) Buffer& operator<<(Number number) {
        char* const at = reserve(24);
        size_ += static_cast<std::size_t>(std::to_chars(at, at + 24, number).ptr - at);
        return *this;
    }

private:
    void grow(std::size_t count) {
        std::size_t capacity = capacity_ * 2;
        while (capacity - size_ < count) capacity *= 2;
        std::unique_ptr<char[]> bytes(new char[capacity]);
        std::memcpy(bytes.get(), bytes_.get(), size_);
        bytes_ = std::move(bytes);
        capacity_ = capacity;
    }

    std::unique_ptr<char[]> bytes_;
    std::size_t capacity_ = 0, size_ = 0;
};

}  // namespace callgate
