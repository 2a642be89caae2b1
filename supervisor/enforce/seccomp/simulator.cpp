#include <linux/seccomp.h>

#include <cstring>

#include "supervisor/enforce/seccomp/compiler.hpp"

namespace callgate::enforce {
namespace {

std::uint32_t load(const seccomp_data& data, std::uint32_t offset) {
    std::uint32_t value = 0;
    if (offset % 4 == 0 && offset + sizeof value <= sizeof data)
        std::memcpy(&value, reinterpret_cast<const unsigned char*>(&data) + offset, sizeof value);
    return value;
}

bool holds(std::uint16_t code, std::uint32_t accumulator, std::uint32_t k) {
    switch (BPF_OP(code)) {
        case BPF_JEQ:
            return accumulator == k;
        case BPF_JGT:
            return accumulator > k;
        case BPF_JGE:
            return accumulator >= k;
        default:
            return (accumulator & k) != 0;
    }
}

}  // namespace

std::uint32_t simulate(const std::vector<sock_filter>& program, std::uint32_t architecture,
                       std::uint32_t call, const std::uint64_t (&arguments)[6]) {
    seccomp_data data{};
    data.nr = static_cast<int>(call);
    data.arch = architecture;
    for (std::size_t i = 0; i < 6; ++i) data.args[i] = arguments[i];

    std::uint32_t accumulator = 0;
    for (std::size_t at = 0; at < program.size(); ++at) {
        const sock_filter& now = program[at];
        switch (now.code) {
            case BPF_LD | BPF_W | BPF_ABS:
                accumulator = load(data, now.k);
                break;
            case BPF_ALU | BPF_AND | BPF_K:
                accumulator &= now.k;
                break;
            case BPF_RET | BPF_K:
                return now.k;
            case BPF_JMP | BPF_JA:
                at += now.k;
                break;
            case BPF_JMP | BPF_JEQ | BPF_K:
            case BPF_JMP | BPF_JGT | BPF_K:
            case BPF_JMP | BPF_JGE | BPF_K:
            case BPF_JMP | BPF_JSET | BPF_K:
                at += holds(now.code, accumulator, now.k) ? now.jt : now.jf;
                break;
            default:
                return SECCOMP_RET_KILL_PROCESS;  // the kernel refuses to load anything else
        }
    }
    return SECCOMP_RET_KILL_PROCESS;
}

}  // namespace callgate::enforce
