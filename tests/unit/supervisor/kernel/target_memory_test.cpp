#include "supervisor/kernel/target_memory.hpp"

#include <doctest/doctest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

using namespace callgate;
using namespace callgate::kernel;

namespace {

constexpr std::size_t page = 4096;

/// Two pages; only the first can be read. Text is placed so that it ends with the first page.
class Edge {
public:
    Edge()
        : memory_(static_cast<char*>(
              ::mmap(nullptr, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0))) {
        REQUIRE(memory_ != MAP_FAILED);
        REQUIRE(::mprotect(memory_ + page, page, PROT_NONE) == 0);
    }
    ~Edge() { ::munmap(memory_, 2 * page); }
    Edge(const Edge&) = delete;
    Edge& operator=(const Edge&) = delete;

    /// The address of `text`, which ends with the last readable byte.
    std::uint64_t put(std::string_view text) {
        char* at = memory_ + page - text.size();
        std::memcpy(at, text.data(), text.size());
        return reinterpret_cast<std::uint64_t>(at);
    }

private:
    char* memory_;
};

std::string terminated(std::size_t length) { return std::string(length, 'n') + '\0'; }

/// 0 if it could be read.
int error_of(const Result<void>& result) { return result ? 0 : result.error().value(); }

}  // namespace

TEST_CASE("a string is read up to its end at the edge of memory, and no further than the kernel reads") {
    Edge edge;
    std::string text;
    CHECK(error_of(read_string(::getpid(), edge.put(terminated(255)), 256, text)) == 0);
    CHECK(text == std::string(255, 'n'));
    CHECK(error_of(read_string(::getpid(), edge.put(terminated(0)), 256, text)) == 0);
    CHECK(text.empty());
    CHECK(error_of(read_string(::getpid(), edge.put(terminated(256)), 256, text)) == ENAMETOOLONG);
    // 256 bytes without NUL, then unreadable memory: the kernel never reads the missing byte.
    CHECK(error_of(read_string(::getpid(), edge.put(std::string(256, 'n')), 256, text)) == ENAMETOOLONG);
    CHECK(error_of(read_string(::getpid(), edge.put(std::string(255, 'n')), 256, text)) == EFAULT);
    CHECK(error_of(read_string(::getpid(), 8, 256, text)) == EFAULT);
}

TEST_CASE("a path may fill PATH_MAX bytes, its end included") {
    Edge edge;
    std::string text;
    CHECK(error_of(read_path(::getpid(), edge.put(terminated(4095)), text)) == 0);
    CHECK(text.size() == 4095);
    CHECK(error_of(read_path(::getpid(), edge.put(std::string(4096, 'n')), text)) == ENAMETOOLONG);
    CHECK(error_of(read_path(::getpid(), edge.put(std::string(100, 'n')), text)) == EFAULT);
}

TEST_CASE("by its file the same memory is read and written as by the calls for that, and no more") {
    REQUIRE_FALSE(memory_calls_are_refused());
    Edge edge;
    const std::uint64_t at = edge.put("0123456789");
    std::array<char, 16> into{};
    const auto to_edge = read_memory_file(::getpid(), at, into.data(), into.size());
    REQUIRE(to_edge);
    CHECK(*to_edge == 10);  // the next page exists but cannot be read
    CHECK(std::string_view(into.data(), 10) == "0123456789");
    CHECK(read_memory_file(::getpid(), at + 10, into.data(), 1).error().value() == EFAULT);
    CHECK(read_memory_file(::getpid(), 8, into.data(), 1).error().value() == EFAULT);
    CHECK(read_memory_file(::getpid(), ~std::uint64_t{0} - 7, into.data(), 8).error().value() == EFAULT);

    CHECK(*write_memory_file(::getpid(), at + 8, "abcd", 4) == 2);
    CHECK(write_memory_file(::getpid(), at + 10, "x", 1).error().value() == EFAULT);
    CHECK(std::string_view(reinterpret_cast<const char*>(at), 10) == "01234567ab");
    // Read-only memory stays unchanged, although the file could force a write.
    static const char constant[] = "constant";
    CHECK(write_memory_file(::getpid(), reinterpret_cast<std::uint64_t>(constant), "x", 1).error().value() ==
          EFAULT);
    CHECK(std::string_view(constant) == "constant");
}
