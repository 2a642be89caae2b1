#include "supervisor/audit/write/outcome.hpp"

#include <doctest/doctest.h>

#include <set>
#include <string>

using namespace callgate;

TEST_CASE("outcomes have the words and exit statuses that docs/cli.md lists") {
    CHECK(name(Outcome::killed_by_rule) == "killed_by_rule");
    CHECK(name(Outcome::supervisor_lost) == "supervisor_lost");
    CHECK(exit_status(Outcome::timeout) == 124);
    CHECK(exit_status(Outcome::idle_timeout) == 124);
    CHECK(exit_status(Outcome::log_full) == 137);
    CHECK(exit_status(Outcome::setup_error) == 125);
    CHECK(exit_status(Outcome::cpu) == 152);
    for (const Outcome killed : {Outcome::memory, Outcome::processes, Outcome::disk, Outcome::killed_by_rule})
        CHECK(exit_status(killed) == 137);
    for (const Outcome open : {Outcome::exited, Outcome::signaled, Outcome::exec_failed, Outcome::cancelled})
        CHECK_FALSE(exit_status(open));
}

TEST_CASE("no two outcomes have the same word") {
    std::set<std::string> words;
    for (int number = 0; number <= static_cast<int>(Outcome::supervisor_lost); ++number)
        CHECK(words.insert(std::string(name(static_cast<Outcome>(number)))).second);
    CHECK(name(Mode::audit) == "audit");
    CHECK(name(Mode::enforce) == "enforce");
}
