#include "supervisor/calls/network/send_batch.hpp"

#include <doctest/doctest.h>
#include <netinet/in.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <string>
#include <vector>

using namespace callgate;
using calls::Batch;

namespace {

/// Messages of this process, as a caller would have them.
struct Messages {
    explicit Messages(std::size_t count) : names(count), parts(count), headers(count), texts(count) {
        for (std::size_t index = 0; index < count; ++index) {
            texts[index] = std::string(index + 1, 'x');
            names[index].sin_family = AF_INET;
            names[index].sin_port = htons(7);
            parts[index] = {texts[index].data(), texts[index].size()};
            headers[index].msg_hdr.msg_name = &names[index];
            headers[index].msg_hdr.msg_namelen = sizeof names[index];
            headers[index].msg_hdr.msg_iov = &parts[index];
            headers[index].msg_hdr.msg_iovlen = 1;
            headers[index].msg_len = 77;
        }
    }
    [[nodiscard]] std::uint64_t at() const { return reinterpret_cast<std::uint64_t>(headers.data()); }
    [[nodiscard]] std::size_t alike() const { return Batch::read(::getpid(), at(), headers.size()).size(); }

    std::vector<sockaddr_in> names;
    std::vector<iovec> parts;
    std::vector<mmsghdr> headers;
    std::vector<std::string> texts;
};

/// A readable page, followed by an unmapped one.
struct Page {
    Page() : memory(::mmap(nullptr, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)) {
        REQUIRE(::munmap(static_cast<char*>(memory) + 4096, 4096) == 0);
    }
    ~Page() { ::munmap(memory, 4096); }
    [[nodiscard]] char* end() const { return static_cast<char*>(memory) + 4096; }
    void* memory;
};

}  // namespace

TEST_CASE("only plain datagrams of the internet are sent together") {
    CHECK(Batch::possible({AF_INET, SOCK_DGRAM}, MSG_DONTWAIT));
    CHECK(Batch::possible({AF_INET6, SOCK_DGRAM}, 0));
    CHECK_FALSE(Batch::possible({AF_INET, SOCK_DGRAM}, MSG_ZEROCOPY));
    CHECK_FALSE(Batch::possible({AF_INET, SOCK_STREAM}, 0));
    CHECK_FALSE(Batch::possible({AF_UNIX, SOCK_DGRAM}, 0));
}

TEST_CASE("a batch ends before the first element that is not alike") {
    CHECK(Messages(5).alike() == 5);
    CHECK(Messages(100).alike() == 64);
    CHECK(Messages(1).alike() == 0);
    Messages other(5);
    SUBCASE("by address") { other.names[3].sin_port = htons(8); }
    SUBCASE("by the address's length") { other.headers[3].msg_hdr.msg_namelen = 8; }
    SUBCASE("by having none") { other.headers[3].msg_hdr.msg_name = nullptr; }
    SUBCASE("by parts") { other.headers[3].msg_hdr.msg_iovlen = 2; }
    SUBCASE("by control data") { other.headers[3].msg_hdr.msg_controllen = 16; }
    SUBCASE("by size") { other.parts[3].iov_len = 1 << 20; }
    SUBCASE("by a part that cannot be read") { other.headers[3].msg_hdr.msg_iov = nullptr; }
    SUBCASE("by an address that cannot be read") {
        other.headers[3].msg_hdr.msg_name = reinterpret_cast<void*>(8);
    }
    CHECK(other.alike() == 3);
}

TEST_CASE("what cannot be read whole is not taken") {
    Messages all(4);
    SUBCASE("a payload") { all.parts[2] = {nullptr, 9}; }
    SUBCASE("an address that is too long") {
        for (mmsghdr& header : all.headers) header.msg_hdr.msg_namelen = 4096;
    }
    SUBCASE("addresses of a negative length") {
        for (mmsghdr& header : all.headers) header.msg_hdr.msg_namelen = ~0U;
    }
    CHECK(all.alike() == 0);
}

TEST_CASE("headers count as far as they are there") {
    const Page page;
    const Messages all(3);
    char* const start = page.end() - 2 * sizeof(mmsghdr);
    std::memcpy(start, all.headers.data(), 2 * sizeof(mmsghdr));
    CHECK(Batch::read(::getpid(), reinterpret_cast<std::uint64_t>(start), 3).size() == 2);
}

TEST_CASE("a batch is sent from its copy, and the lengths are told") {
    const int receiver = ::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    const int sender = ::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    sockaddr_in here{};
    here.sin_family = AF_INET;
    here.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof here;
    REQUIRE(::bind(receiver, reinterpret_cast<sockaddr*>(&here), length) == 0);
    REQUIRE(::getsockname(receiver, reinterpret_cast<sockaddr*>(&here), &length) == 0);
    Messages all(3);
    for (sockaddr_in& name : all.names) name = here;
    auto batch = Batch::read(::getpid(), all.at(), 3);
    REQUIRE(batch.size() == 3);
    REQUIRE(batch.address);
    for (std::size_t index = 0; index < 3; ++index) {  // the batch must not see this
        all.names[index] = {};
        all.texts[index] = "changed";
        all.parts[index] = {};
    }
    CHECK(batch.write_lengths(::getpid(), all.at()) == 3);
    CHECK(all.headers[2].msg_len == 3);
    CHECK(batch.send(sender, 0) == 3);
    std::array<char, 16> got{};
    for (const std::string expected : {"x", "xx", "xxx"}) {
        const ssize_t size = ::recv(receiver, got.data(), got.size(), 0);
        REQUIRE(size > 0);
        CHECK(std::string(got.data(), static_cast<std::size_t>(size)) == expected);
    }
    batch.take_back(::getpid(), all.at(), 1);
    CHECK(all.headers[0].msg_len == 1);
    CHECK(all.headers[1].msg_len == 77);
    CHECK(all.headers[2].msg_len == 77);
    ::close(receiver);
    ::close(sender);
}
