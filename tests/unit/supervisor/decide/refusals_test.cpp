#include "supervisor/decide/refusals.hpp"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <string>

#include "tests/fakes/run_needs.hpp"
#include "tests/unit/temporary_directory.hpp"

using namespace callgate;

namespace {

kernel::Notification notified(std::uint32_t call) { return {.id = 1, .thread = ::gettid(), .call = call}; }

std::size_t lines_of(const std::string& path) {
    std::ifstream file(path);
    std::size_t count = 0;
    for (std::string line; std::getline(file, line);) ++count;
    return count;
}

}  // namespace

TEST_CASE("the first refusal of a kind is recorded at once, the total at the end") {
    const tests::TemporaryDirectory directory;
    const std::string path = directory / "log";
    fakes::RunNeeds run({}, rules::Action::deny);
    const auto log = audit::Log::at_file(path, {.run = "k3f9"}).value();
    run.decide.log = log.get();
    calls::CallerInfo caller;
    calls::Refusals refusals;
    const auto note = [&](const enforce::RefusedKind& kind) {
        refusals.note(run.decide, caller, notified(SYS_socket), {&kind, EPROTONOSUPPORT});
    };
    note(enforce::refused::udp);
    CHECK(lines_of(path) == 1);
    for (int times = 0; times < 99; ++times) note(enforce::refused::udp);
    note(enforce::refused::raw);
    CHECK(lines_of(path) == 2);
    const auto all = refusals.all();
    REQUIRE(all.size() == 2);
    CHECK(all[0].count == 100);
    CHECK(all[0].call == "socket");
    CHECK(all[0].program.find("callgate_tests") != std::string::npos);
    CHECK(all[1].kind == &enforce::refused::raw);
    CHECK(refusals.record_totals(*log) == 0);
    CHECK(lines_of(path) == 3);  // raw sockets came once: nothing to add
}

TEST_CASE("a refusal that cannot be recorded is counted, and shows as an error of the log") {
    fakes::RunNeeds run({}, rules::Action::deny);
    const auto log =
        audit::Log::on_descriptor(UniqueFd(::open("/dev/full", O_WRONLY | O_CLOEXEC)), {.run = "k3f9"})
            .value();
    run.decide.log = log.get();
    calls::CallerInfo caller;
    calls::Refusals refusals;
    for (int times = 0; times < 2; ++times)
        refusals.note(run.decide, caller, notified(SYS_unshare), {&enforce::refused::namespaces, EPERM});
    CHECK(run.decide.log_error == ENOSPC);
    CHECK(refusals.all().at(0).count == 2);
    CHECK(refusals.record_totals(*log) == ENOSPC);
}
