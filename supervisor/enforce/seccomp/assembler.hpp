// Assembles a program of classic BPF; private to the seccomp compiler.
//
// Classic BPF only jumps forward, so the program is assembled from its end. Every jump target is then already
// there and its distance known. If it is beyond the 8 bits of a conditional jump, a trampoline is inserted: a
// copy of the return, or an unconditional jump.
#pragma once

#include <linux/filter.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <utility>
#include <vector>

namespace callgate::enforce {

class Assembler {
public:
    /// The place of an instruction, counted from the program's end.
    using Place = std::size_t;

    Place returns(std::uint32_t value) {
        for (const auto& [known, place] : returns_)
            if (known == value) return place;
        return returns_.emplace_back(value, put(BPF_STMT(BPF_RET | BPF_K, value))).second;
    }
    /// Falls through to the instruction that was added before it.
    Place statement(std::uint16_t code, std::uint32_t k) { return put(BPF_STMT(code, k)); }
    Place jump(std::uint16_t condition, std::uint32_t k, Place yes, Place no) {
        // Either branch may need a trampoline, which moves the other farther away; leave room for both.
        yes = near(yes, 2);
        no = near(no, 1);
        return put(BPF_JUMP(static_cast<std::uint16_t>(BPF_JMP | BPF_K | condition), k, distance(yes),
                            distance(no)));
    }
    std::vector<sock_filter> finish() {
        if (reversed_.size() > BPF_MAXINSNS)
            throw std::length_error("seccomp program of too many instructions");
        std::reverse(reversed_.begin(), reversed_.end());
        return std::move(reversed_);
    }

private:
    Place put(sock_filter instruction) {
        reversed_.push_back(instruction);
        return reversed_.size() - 1;
    }
    Place near(Place target, std::size_t room) {
        const std::size_t away = reversed_.size() - 1 - target;
        if (away + room <= 255) return target;
        const sock_filter there = reversed_[target];
        if (BPF_CLASS(there.code) == BPF_RET) {
            for (auto& [known, place] : returns_)
                if (known == there.k) return place = put(there);
        }
        return put(BPF_STMT(BPF_JMP | BPF_JA, static_cast<std::uint32_t>(away)));
    }
    [[nodiscard]] std::uint8_t distance(Place target) const {
        return static_cast<std::uint8_t>(reversed_.size() - 1 - target);
    }

    std::vector<sock_filter> reversed_;
    std::vector<std::pair<std::uint32_t, Place>> returns_;  // few
};

}  // namespace callgate::enforce
