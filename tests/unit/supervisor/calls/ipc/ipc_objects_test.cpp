#include "supervisor/calls/ipc/ipc_objects.hpp"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/ipc.h>
#include <sys/msg.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <set>
#include <string>

using namespace callgate;

namespace {

std::set<int> listed(const agent::CreatedIpc::Ids& list) {
    std::set<int> ids;
    for (std::uint32_t index = 0; index < list.count.load(); ++index) ids.insert(list.values[index].load());
    return ids;
}

}  // namespace

TEST_CASE("an id is the run's own from when it is added until it is removed, and stands in the shared list") {
    const auto shared = agent::SharedObjects::make();
    REQUIRE(shared.has_value());
    auto& list = shared->objects().ids[0];
    calls::OwnIds own(list);
    for (const int id : {7, 0, 32768, 5}) own.add(id);
    CHECK(own.has(0));
    CHECK_FALSE(own.has(1));
    own.remove(7);  // the first: another takes its place
    own.remove(99);
    CHECK_FALSE(own.has(7));
    CHECK(listed(list) == std::set<int>{0, 5, 32768});
    own.remove(5);
    own.remove(32768);
    own.remove(0);
    CHECK(list.count.load() == 0);
    own.add(7);
    CHECK(own.owns(7));
}

TEST_CASE("a run makes only so many objects that no id comes back") {
    const auto shared = agent::SharedObjects::make();
    REQUIRE(shared.has_value());
    calls::OwnIds own(shared->objects().ids[1]);
    for (std::uint32_t made = 0; made < agent::CreatedIpc::max_ids; ++made) {
        REQUIRE_FALSE(own.exhausted());
        own.add(static_cast<int>(made));
        if (made % 2 == 0) own.remove(static_cast<int>(made));
    }
    CHECK(own.exhausted());
    own.remove(1);
    CHECK(own.exhausted());
}

TEST_CASE("a run has only so many semaphores at a time, and so have all nested ones together") {
    const auto all = agent::SharedObjects::make(), one = agent::SharedObjects::make(),
               other = agent::SharedObjects::make();
    REQUIRE((all.has_value() && one.has_value() && other.has_value()));
    calls::OwnIds around(all->objects().ids[1]), first(one->objects().ids[1], &around),
        second(other->objects().ids[1], &around);
    constexpr std::uint32_t most = calls::OwnIds::max_semaphores;
    CHECK_FALSE(first.exhausted(most));
    CHECK(first.exhausted(most + 1));
    first.add(1, most - 5);
    CHECK_FALSE(second.exhausted(5));
    CHECK(second.exhausted(6));
    second.add(2, 5);
    first.remove(1);
    CHECK_FALSE(first.exhausted(most - 5));
    CHECK(first.exhausted(most));
}

TEST_CASE("what is left is removed, of every kind, and nothing else") {
    const auto shared = agent::SharedObjects::make();
    REQUIRE(shared.has_value());
    calls::IpcObjects own(shared->objects());
    const int memory = ::shmget(IPC_PRIVATE, 100, 0600), other = ::shmget(IPC_PRIVATE, 100, 0600);
    const int semaphores = ::semget(IPC_PRIVATE, 1, 0600), queue = ::msgget(IPC_PRIVATE, 0600);
    const std::string name = "callgate-test-" + std::to_string(::getpid()), other_name = name + "-other";
    const auto make = [](const std::string& queue_name) {
        const int fd = static_cast<int>(
            ::syscall(SYS_mq_open, queue_name.c_str(), O_RDWR | O_CREAT | O_EXCL, 0, nullptr));
        struct stat status {};
        ::fstat(fd, &status);
        ::close(fd);
        return static_cast<std::uint64_t>(status.st_ino);
    };
    own.of(agent::ObjectKind::memory).add(memory);
    own.of(agent::ObjectKind::semaphores).add(semaphores);
    own.of(agent::ObjectKind::queue).add(queue);
    own.queues.add(name, make(name));
    // Another process has taken the name by now (mode 0600, so the test can look at it).
    const int foreign =
        static_cast<int>(::syscall(SYS_mq_open, other_name.c_str(), O_RDWR | O_CREAT, 0600, nullptr));
    own.queues.add(other_name, 1);
    agent::remove_created_ipc(shared->objects());
    shmid_ds state{};
    CHECK(::shmctl(memory, IPC_STAT, &state) == -1);
    CHECK(::shmctl(other, IPC_STAT, &state) == 0);
    CHECK(::semctl(semaphores, 0, GETVAL) == -1);
    msqid_ds queue_state{};
    CHECK(::msgctl(queue, IPC_STAT, &queue_state) == -1);
    CHECK(::syscall(SYS_mq_open, name.c_str(), O_RDONLY, 0, nullptr) == -1);
    CHECK(::syscall(SYS_mq_unlink, other_name.c_str()) == 0);
    ::close(foreign);
    ::shmctl(other, IPC_RMID, nullptr);
}

TEST_CASE("a queue is known by its name until it is removed") {
    const auto shared = agent::SharedObjects::make();
    REQUIRE(shared.has_value());
    calls::IpcObjects own(shared->objects());
    CHECK(own.queues.inode("a") == 0);
    own.queues.add("a", 5);
    own.queues.add("a", 6);
    own.queues.add(std::string(255, 'x'), 7);
    CHECK(own.queues.inode("a") == 6);
    CHECK(own.queues.inode(std::string(255, 'x')) == 7);
    own.queues.remove("a");
    CHECK(own.queues.inode("a") == 0);
    for (int index = 0; !own.queues.full(); ++index) own.queues.add("n" + std::to_string(index), 1);
    CHECK(own.queues.inode("n254") == 1);
}
