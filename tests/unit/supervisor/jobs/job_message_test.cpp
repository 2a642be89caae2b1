#include "supervisor/jobs/job_message.hpp"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>

#include "base/process/spawn.hpp"

namespace {

using namespace callgate;
using namespace callgate::jobs;

struct Sockets {
    UniqueFd sender, receiver;
    Sockets() {
        int ends[2];
        REQUIRE(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) == 0);
        sender.reset(ends[0]);
        receiver.reset(ends[1]);
    }
    [[nodiscard]] Result<void> send(const std::string& packed, std::size_t descriptors) const {
        const std::vector<std::pair<int, int>> all(descriptors, {sender.get(), 1});
        return send_job(sender.get(), packed, all);
    }
};

std::string packed(const JobMessage& job) {
    const auto made = pack(job);
    REQUIRE(made);
    return *made;
}

const JobMessage every_byte{{"--timeout=1ms", "--", "bash", "-c", "", "a\n\xff"}, {"A=", "B=\n"}};

TEST_CASE("a job arrives with every byte, and with its descriptors in their order") {
    const Sockets sockets;
    auto one = make_pipe();
    auto other = make_pipe();
    REQUIRE((one && other));
    const std::array descriptors{std::pair(one->write.get(), 1), std::pair(other->write.get(), 6)};
    CHECK(send_job(sockets.sender.get(), packed(every_byte), descriptors).has_value());
    const auto received = receive_job(sockets.receiver.get());
    REQUIRE(received.has_value());
    CHECK(received->job.words == every_byte.words);
    CHECK(received->job.variables == every_byte.variables);
    REQUIRE(received->connected.size() == 2);
    for (const auto& [here, in_run] : received->connected) {
        CHECK((::fcntl(here.get(), F_GETFD) & FD_CLOEXEC) != 0);
        CHECK(here.get() >= first_descriptor);
        const char number = static_cast<char>(in_run);
        CHECK(::write(here.get(), &number, 1) == 1);
    }
    char told = 0;
    CHECK((::read(one->read.get(), &told, 1) == 1 && told == 1));
    CHECK((::read(other->read.get(), &told, 1) == 1 && told == 6));
}

TEST_CASE("the longest message arrives whole") {
    const Sockets sockets;
    const JobMessage longest{{std::string(max_message - 100, 'x')}, {}};
    CHECK(sockets.send(packed(longest), 1).has_value());
    const auto received = receive_job(sockets.receiver.get());
    REQUIRE(received.has_value());
    CHECK(received->job.words == longest.words);
}

TEST_CASE("a message that cannot be sent whole is refused at once") {
    const Sockets sockets;
    CHECK(sockets.send("0", 0).error() == errno_code(EINVAL));
    CHECK(sockets.send("0", 9).error() == errno_code(EINVAL));
    CHECK(sockets.send("0", 8).has_value());
    int sent = 1;
    while (sent < 100'000 && sockets.send("0", 1)) ++sent;
    CHECK(sent < 100'000);
    CHECK(sockets.send("0", 1).error() == errno_code(EAGAIN));
    Sockets unread;
    unread.receiver.reset();
    CHECK(unread.send("0", 1).error() == errno_code(EPIPE));
}

TEST_CASE("any other message is no job") {
    Sockets sockets;
    CHECK(::send(sockets.sender.get(), "words", 5, MSG_NOSIGNAL) == 5);
    CHECK(receive_job(sockets.receiver.get()).error() == errno_code(EBADMSG));
    CHECK(sockets.send("no job", 1).has_value());
    CHECK(receive_job(sockets.receiver.get()).error() == errno_code(EBADMSG));
    CHECK(sockets.send(packed(every_byte) + std::string(max_message, '\0'), 1).has_value());
    CHECK(receive_job(sockets.receiver.get()).error() == errno_code(EBADMSG));
    sockets.sender.reset();
    CHECK(receive_job(sockets.receiver.get()).error() == errno_code(ECONNRESET));
}

TEST_CASE("a process that may not open a job's descriptors does not take the job") {
    const Sockets sockets;
    CHECK(sockets.send(packed(every_byte), 3).has_value());
    rlimit before{};
    REQUIRE(::getrlimit(RLIMIT_NOFILE, &before) == 0);
    const int next = ::fcntl(sockets.sender.get(), F_DUPFD_CLOEXEC, 0);
    ::close(next);
    const rlimit low{static_cast<rlim_t>(next) + 1, before.rlim_max};
    REQUIRE(::setrlimit(RLIMIT_NOFILE, &low) == 0);
    const auto received = receive_job(sockets.receiver.get());
    REQUIRE(::setrlimit(RLIMIT_NOFILE, &before) == 0);
    CHECK(received.error() == errno_code(EMFILE));
}

TEST_CASE("a message holds a whole job or nothing") {
    CHECK_FALSE(pack({{std::string(max_message, 'x')}, {}}));
    CHECK_FALSE(pack({{std::string("a\0b", 3)}, {}}));
    using namespace std::string_view_literals;
    for (const std::string_view wrong :
         {""sv, "1"sv, "1\0"sv, "1\0a"sv, "2\0a\0"sv, "-1\0a\0"sv, "x\0a\0"sv, "\0"sv})
        CHECK_FALSE(unpack(wrong));
    const std::string message = packed(every_byte);
    for (std::size_t end = 0; end < message.size(); ++end)
        if (const auto part = unpack(std::string_view(message).substr(0, end)))
            CHECK(part->words.size() == every_byte.words.size());
}

}  // namespace
