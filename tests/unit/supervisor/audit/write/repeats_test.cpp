#include "supervisor/audit/write/repeats.hpp"

#include <doctest/doctest.h>

#include <cerrno>
#include <span>
#include <string>
#include <vector>

using namespace callgate;
using namespace callgate::audit;

namespace {

constexpr std::int64_t second = Repeats::interval_ns;

Decision denial(std::string_view path) {
    Decision one;
    one.call = "openat";
    one.caller.executable = "/bin/x";
    one.operations = rules::Operation::read;
    one.object = rules::FileObject{.path = path};
    one.verdict = {.action = rules::Action::deny, .error = EACCES};
    return one;
}

Repeats::Seen see(Repeats& repeats, const Decision& decision, std::int64_t now) {
    return repeats.see(Repeats::key_of(decision), decision, now);
}

}  // namespace

TEST_CASE("the first denials have a record each, and the last of them says that later ones are counted") {
    Repeats repeats(3);
    const Decision one = denial("/w/a");
    CHECK_FALSE(see(repeats, one, 1).announces);
    CHECK_FALSE(see(repeats, one, 2).announces);
    const Repeats::Seen third = see(repeats, one, 3);
    CHECK(third.count == 1);
    CHECK(third.announces);
    CHECK(see(repeats, one, 4).count == 0);
    CHECK(see(repeats, one, 5).count == 0);
    CHECK(repeats.any_pending());
    CHECK(see(repeats, one, 3 + second).count == 3);
    CHECK_FALSE(repeats.any_pending());
}

TEST_CASE("counts that are left are taken once, with the bytes of a call that is over") {
    Repeats repeats(1);
    {
        const std::string path = "/w/gone";
        Decision one = denial(path);
        one.input.path = path;
        for (std::int64_t now = 0; now < 5; ++now) static_cast<void>(see(repeats, one, now));
    }
    CHECK(repeats.take_due(second / 2, false).empty());
    const auto due = repeats.take_due(second, false);
    REQUIRE(due.size() == 1);
    CHECK(due[0].count == 4);
    CHECK(due[0].last->decision().input.path == "/w/gone");
    CHECK(std::get<rules::FileObject>(due[0].last->decision().object).path == "/w/gone");
    CHECK(due[0].last->decision().input.second_path.data() == nullptr);
    CHECK(repeats.take_due(10 * second, true).empty());
    repeats.unwritten(due[0].key, 4);
    CHECK(repeats.take_due(10 * second, true).at(0).count == 4);
}

TEST_CASE("look-ups of other names are not equal, and a count has the name of its calls") {
    const auto look_up = [](std::string_view name) {
        Decision one = denial("");
        one.call = "lookup";
        one.object = rules::HostName{name};
        return one;
    };
    CHECK(Repeats::key_of(look_up("a.example.org")) == Repeats::key_of(look_up("a.example.org")));
    CHECK(Repeats::key_of(look_up("a.example.org")) != Repeats::key_of(look_up("b.example.org")));
    Repeats repeats(1);
    {
        std::string name = "gone.example.org";
        for (std::int64_t now = 0; now < 3; ++now) static_cast<void>(see(repeats, look_up(name), now));
        name.assign(name.size(), 'x');
    }
    const auto due = repeats.take_due(second, true);
    REQUIRE(due.size() == 1);
    CHECK(std::get<rules::HostName>(due[0].last->decision().object).name == "gone.example.org");
}

TEST_CASE("a count has the names of its address and the name of its nested run") {
    const auto connect = [](std::span<const std::string> names, std::string_view nested) {
        Decision one = denial("");
        one.call = "connect";
        one.object =
            rules::Endpoint{.address = {}, .port = 80, .protocol = rules::Protocol::tcp, .names = names};
        one.caller.nested = nested;
        return one;
    };
    const std::vector<std::string> same{"a.example.org"}, other{"b.example.org"};
    CHECK(Repeats::key_of(connect(same, "n")) == Repeats::key_of(connect(same, "n")));
    CHECK(Repeats::key_of(connect(same, "n")) != Repeats::key_of(connect(other, "n")));
    CHECK(Repeats::key_of(connect(same, "n")) != Repeats::key_of(connect({}, "n")));
    Repeats repeats(1);
    {
        std::vector<std::string> names{"one.example.org", "two.example.org"};
        std::string nested = "k3f9xq";
        for (std::int64_t now = 0; now < 3; ++now)
            static_cast<void>(see(repeats, connect(names, nested), now));
        for (std::string& name : names) name.assign(name.size(), 'x');
        nested.assign(nested.size(), 'x');
    }
    const auto due = repeats.take_due(second, true);
    REQUIRE(due.size() == 1);
    const Decision& kept = due[0].last->decision();
    const auto names = std::get<rules::Endpoint>(kept.object).names;
    CHECK(std::vector<std::string>(names.begin(), names.end()) ==
          std::vector<std::string>{"one.example.org", "two.example.org"});
    CHECK(kept.caller.nested == "k3f9xq");
}

TEST_CASE("denials that differ in what they say are not equal") {
    const Decision one = denial("/w/a");
    Decision other = denial("/w/b");
    CHECK(Repeats::key_of(one) != Repeats::key_of(other));
    other = one;
    other.caller.executable = "/bin/y";
    CHECK(Repeats::key_of(one) != Repeats::key_of(other));
    other = one;
    other.verdict.error = EPERM;
    CHECK(Repeats::key_of(one) != Repeats::key_of(other));
    other = one;
    other.input.path = "../w/a";
    CHECK(Repeats::key_of(one) == Repeats::key_of(other));
}

TEST_CASE("only denials that no answer of their own decided are counted") {
    Decision one = denial("/w/a");
    CHECK(Repeats::countable(one));
    one.question = 3;
    CHECK_FALSE(Repeats::countable(one));
    one.grant = 1;
    one.verdict.decided_by = rules::DecidedBy::grant;
    CHECK(Repeats::countable(one));
    CHECK(Repeats::key_of(one) != Repeats::key_of(denial("/w/a")));
    one = denial("/w/a");
    one.verdict.action = rules::Action::allow;
    CHECK_FALSE(Repeats::countable(one));
    one = denial("/w/a");
    one.mechanism = Mechanism::kill;
    one.verdict.action = rules::Action::kill;
    CHECK_FALSE(Repeats::countable(one));
    one = denial("/w/a");
    one.mechanism = Mechanism::continued;  // audit mode
    CHECK_FALSE(Repeats::countable(one));
}

TEST_CASE("the number of kinds is bounded, and a count without a record is never given up") {
    Repeats repeats(1);
    const Decision counted = denial("/w/counted");
    static_cast<void>(see(repeats, counted, 0));
    static_cast<void>(see(repeats, counted, 1));
    for (int other = 0; other < 3 * static_cast<int>(Repeats::max_groups); ++other)
        CHECK(see(repeats, denial("/w/" + std::to_string(other)), 2 + other).count == 1);
    const auto due = repeats.take_due(second, true);
    REQUIRE(due.size() == 1);
    CHECK(due[0].count == 1);
}
