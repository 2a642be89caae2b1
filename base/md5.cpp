#include "base/md5.hpp"

#include <bit>
#include <cmath>
#include <cstddef>
#include <string>

namespace callgate {

namespace {

constexpr std::size_t block_bytes = 64, rounds = 64;

/// Four numbers of 32 bits, as RFC 1321 names them.
using State = std::array<std::uint32_t, 4>;

std::uint32_t word_of(std::string_view block, std::size_t index) {
    std::uint32_t word = 0;
    for (std::size_t byte = 4; byte-- > 0;)
        word = word << 8 | static_cast<std::uint8_t>(block[4 * index + byte]);
    return word;
}

void add_block(State& state, std::string_view block) {
    constexpr std::array<std::array<int, 4>, 4> turns{
        {{7, 12, 17, 22}, {5, 9, 14, 20}, {4, 11, 16, 23}, {6, 10, 15, 21}}};
    auto [a, b, c, d] = state;
    for (std::size_t round = 0; round < rounds; ++round) {
        std::uint32_t mixed = 0;
        std::size_t word = 0;
        switch (round / 16) {
            case 0:
                mixed = (b & c) | (~b & d), word = round;
                break;
            case 1:
                mixed = (d & b) | (~d & c), word = 5 * round + 1;
                break;
            case 2:
                mixed = b ^ c ^ d, word = 3 * round + 5;
                break;
            default:
                mixed = c ^ (b | ~d), word = 7 * round;
        }
        const auto sine = static_cast<std::uint32_t>(
            std::floor(std::abs(std::sin(static_cast<double>(round + 1))) * 4294967296.0));
        const std::uint32_t sum = a + mixed + sine + word_of(block, word % 16);
        a = d, d = c, c = b;
        b += std::rotl(sum, turns[round / 16][round % 4]);
    }
    state = {state[0] + a, state[1] + b, state[2] + c, state[3] + d};
}

}  // namespace

Md5 md5(std::string_view bytes) {
    State state{0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476};
    std::string padded(bytes);
    padded += '\x80';
    while (padded.size() % block_bytes != block_bytes - 8) padded += '\0';
    const std::uint64_t bits = std::uint64_t{bytes.size()} * 8;
    for (unsigned shift = 0; shift < 64; shift += 8) padded += static_cast<char>(bits >> shift);
    for (std::size_t at = 0; at < padded.size(); at += block_bytes)
        add_block(state, std::string_view(padded).substr(at, block_bytes));
    Md5 digest{};
    for (std::size_t at = 0; at < digest.size(); ++at)
        digest[at] = static_cast<std::uint8_t>(state[at / 4] >> (at % 4 * 8));
    return digest;
}

}  // namespace callgate
