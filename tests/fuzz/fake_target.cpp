#include "tests/fuzz/fake_target.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>

namespace callgate::fuzz {

namespace {

void* const memory = reinterpret_cast<void*>(memory_begin);
int next = first_descriptor;

void require(bool good) {
    if (!good) std::abort();
}

void place(int made) {
    require(made >= 0 && ::dup3(made, next++, O_CLOEXEC) >= 0);
    ::close(made);
}

}  // namespace

void map_memory() {
    void* const around = reinterpret_cast<void*>(memory_begin - page);
    constexpr int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE;
    require(::mmap(around, memory_size + 2 * page, PROT_NONE, flags, -1, 0) == around);
    require(::mprotect(memory, memory_size, PROT_READ | PROT_WRITE) == 0);
}

void fill_memory(std::span<const std::uint8_t> bytes, bool at_end) {
    const std::size_t size = std::min(bytes.size(), memory_size);
    std::memset(memory, 0, memory_size);
    std::memcpy(static_cast<std::uint8_t*>(memory) + (at_end ? memory_size - size : 0), bytes.data(), size);
}

bool may_be_ours(std::uint64_t address) {
    // x86_64 and aarch64 put programs, libraries and stacks here, and the sanitizers their own.
    constexpr std::uint64_t begin = 0x4000'0000, end = std::uint64_t{1} << 48U;
    return address >= begin && address < end;
}

void open_descriptors() {
    constexpr int flags = SOCK_NONBLOCK | SOCK_CLOEXEC;
    const int families[][3] = {{AF_INET, SOCK_STREAM, 0},    {AF_INET6, SOCK_STREAM, 0},
                               {AF_INET, SOCK_DGRAM, 0},     {AF_INET6, SOCK_DGRAM, 0},
                               {AF_UNIX, SOCK_STREAM, 0},    {AF_UNIX, SOCK_DGRAM, 0},
                               {AF_UNIX, SOCK_SEQPACKET, 0}, {AF_NETLINK, SOCK_RAW, 0}};
    next = first_descriptor;
    for (const auto& [family, type, protocol] : families) place(::socket(family, type | flags, protocol));
    for (const int type : {SOCK_STREAM, SOCK_DGRAM}) {
        int pair[2];
        require(::socketpair(AF_UNIX, type | flags, 0, pair) == 0);
        place(pair[0]);
        place(pair[1]);
    }
    int pipe[2];
    require(::pipe2(pipe, O_CLOEXEC | O_NONBLOCK) == 0);
    place(pipe[0]);
    place(pipe[1]);
    place(::memfd_create("fuzz", MFD_CLOEXEC));
    place(::open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    place(::open("file", O_PATH | O_CLOEXEC));
    place(static_cast<int>(::syscall(SYS_pidfd_open, ::getpid(), 0)));
}

void close_descriptors() { ::close_range(first_descriptor, static_cast<unsigned>(next - 1), 0); }

}  // namespace callgate::fuzz
