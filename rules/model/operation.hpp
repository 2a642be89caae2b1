// The operations that a rule can name, and sets of them.
//
// A system call is decoded into a set of operations on one object; a rule names operations. `write` in a rule
// set is only a name for modify + create + delete + metadata and never exists here. Pure values: no
// descriptors, no clock.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>

namespace callgate::rules {

enum class Operation : std::uint8_t { read, modify, create, remove, metadata, execute, connect, bind };

inline constexpr int operation_count = 8;

/// A set of operations, as one byte; a range of them in declaration order.
class OperationSet {
public:
    constexpr OperationSet() = default;
    constexpr OperationSet(Operation one) : bits_(bit(one)) {}
    constexpr OperationSet(std::initializer_list<Operation> all) {
        for (Operation one : all) bits_ = static_cast<std::uint8_t>(bits_ | bit(one));
    }

    [[nodiscard]] constexpr bool contains(Operation one) const { return (bits_ & bit(one)) != 0; }
    [[nodiscard]] constexpr bool contains_all(OperationSet other) const {
        return (bits_ & other.bits_) == other.bits_;
    }
    [[nodiscard]] constexpr bool intersects(OperationSet other) const { return (bits_ & other.bits_) != 0; }
    [[nodiscard]] constexpr bool empty() const { return bits_ == 0; }
    [[nodiscard]] constexpr std::uint8_t bits() const { return bits_; }

    constexpr OperationSet operator|(OperationSet other) const { return from_bits(bits_ | other.bits_); }
    constexpr OperationSet operator&(OperationSet other) const { return from_bits(bits_ & other.bits_); }
    constexpr OperationSet operator-(OperationSet other) const { return from_bits(bits_ & ~other.bits_); }
    constexpr OperationSet& operator|=(OperationSet other) { return *this = *this | other; }
    constexpr bool operator==(const OperationSet&) const = default;

    class Iterator {
    public:
        using iterator_category = std::input_iterator_tag;
        using value_type = Operation;
        using difference_type = std::ptrdiff_t;
        using pointer = const Operation*;
        using reference = Operation;

        explicit constexpr Iterator(unsigned rest) : rest_(rest) {}
        constexpr Operation operator*() const { return static_cast<Operation>(std::countr_zero(rest_)); }
        constexpr Iterator& operator++() {
            rest_ &= rest_ - 1;
            return *this;
        }
        constexpr bool operator==(const Iterator&) const = default;

    private:
        unsigned rest_;
    };
    [[nodiscard]] constexpr Iterator begin() const { return Iterator(bits_); }
    [[nodiscard]] constexpr Iterator end() const { return Iterator(0); }

    static constexpr OperationSet from_bits(int bits) {
        OperationSet set;
        set.bits_ = static_cast<std::uint8_t>(bits);
        return set;
    }

private:
    static constexpr std::uint8_t bit(Operation one) {
        return static_cast<std::uint8_t>(1U << static_cast<unsigned>(one));
    }
    std::uint8_t bits_ = 0;
};

inline constexpr OperationSet write_operations{Operation::modify, Operation::create, Operation::remove,
                                               Operation::metadata};
inline constexpr OperationSet file_operations =
    write_operations | OperationSet{Operation::read, Operation::execute};
inline constexpr OperationSet network_operations{Operation::connect, Operation::bind};

/// The word in rule sets and logs: "read", "modify", "create", "delete", "metadata", ...
[[nodiscard]] std::string_view name(Operation operation);

/// Every operation of the set, in declaration order, joined by commas; all four of `write` become "write".
[[nodiscard]] std::string names(OperationSet set);

/// The inverse of `name`; "write" gives `write_operations`. Nothing for an unknown word.
[[nodiscard]] std::optional<OperationSet> parse_operations(std::string_view word);

}  // namespace callgate::rules
