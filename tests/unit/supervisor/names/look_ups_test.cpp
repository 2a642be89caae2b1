// No test allows a name: nothing here asks a name server.
#include "supervisor/names/look_ups.hpp"

#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <string>

#include "rules/model/address.hpp"
#include "supervisor/approval/questions/question_queue.hpp"
#include "tests/fakes/approval_log.hpp"
#include "tests/fakes/hand_clock.hpp"
#include "tests/fakes/log.hpp"
#include "tests/fakes/run_needs.hpp"
#include "tests/unit/rules/rule_maker.hpp"
#include "tests/unit/supervisor/names/packed_name.hpp"

using namespace callgate;
using namespace callgate::names;
using approval::QuestionQueue;
using rules::Action;
using rules::Operation;

namespace {

using Message = std::vector<std::uint8_t>;
using Numbers = std::vector<std::uint16_t>;

Message asked(std::string_view name, std::uint16_t type = type_a, std::uint16_t of_class = 1) {
    Message out{0, 7, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0};
    const Message packed = names::tests::packed(name);
    out.insert(out.end(), packed.begin(), packed.end());
    for (const std::uint16_t number : {type, of_class}) {
        out.push_back(static_cast<std::uint8_t>(number >> 8U));
        out.push_back(static_cast<std::uint8_t>(number));
    }
    return out;
}

/// Look-ups under rules, with a queue of questions whose clock stands still.
struct Bench : approval::QueueOwner {
    explicit Bench(Action fallback, std::vector<rules::Rule> all = {})
        : run(std::move(all), fallback), queue({}, journal, *this) {
        queue.open(true);
        run.decide.questions = &queue;
        run.decide.log = kept.log.get();
    }
    std::int64_t now_ns() override { return clock.now_ns; }
    bool has_signal(pid_t) override { return false; }
    void resume(approval::ParkedCalls calls) override {
        for (const approval::ParkedCall& one : calls) one.waiter->answered(one.approvals.back());
    }
    void questions_changed() override {}
    bool find_approver() override { return false; }
    void kill_run() override {}

    fakes::HandClock clock;
    fakes::ApprovalLog journal;
    fakes::RunNeeds run;
    fakes::KeptLog kept;
    QuestionQueue queue;
    boost::asio::io_context loop;
    Bindings bindings;
    LookUps look_ups{loop, run.decide, bindings};
    Asker asker{.process = ::getpid(), .parent = ::getppid(), .start_time = 1, .program = "/bin/program"};
    std::vector<Message> replies;

    bool take(const Message& message) {
        return look_ups.take(message, asker, max_answer, [this](Message reply) { replies.push_back(reply); });
    }
    /// The answer's code, if there is one answer more than before and it is to this query.
    std::optional<Code> code_of(const Message& message) {
        const std::size_t before = replies.size();
        REQUIRE(take(message));
        if (replies.size() != before + 1) return std::nullopt;
        CHECK(replies.back()[1] == message[1]);
        return static_cast<Code>(replies.back()[3] & 15U);
    }
    std::size_t answers_with(Code code) const {
        std::size_t count = 0;
        for (const Message& one : replies) count += (one[3] & 15U) == static_cast<unsigned>(code) ? 1U : 0U;
        return count;
    }
    void answer(Action action, approval::Scope scope = approval::Scope::once) {
        const auto open = queue.questions().at(0);
        REQUIRE(queue.answer(open.question->id, open.question->key, {.action = action, .scope = scope}) ==
                QuestionQueue::Applied::yes);
        run_loop();
    }
    void run_loop() {
        loop.restart();
        loop.run();
    }
};

}  // namespace

TEST_CASE("a name that the rules deny does not exist, and is on record") {
    Bench bench(Action::deny);
    CHECK(bench.code_of(asked("secret.example.org")) == Code::no_such_name);
    CHECK(bench.kept.count("secret.example.org") == 1);
    CHECK(bench.kept.count("\"lookup\"") == 1);
}

TEST_CASE("the queries of one look-up are one record") {
    Bench bench(Action::deny);
    CHECK(bench.code_of(asked("secret.example.org", type_a)) == Code::no_such_name);
    CHECK(bench.code_of(asked("secret.example.org", type_aaaa)) == Code::no_such_name);
    CHECK(bench.kept.lines.size() == 1);
    CHECK(bench.code_of(asked("secret.example.org", type_a)) == Code::no_such_name);
    CHECK(bench.kept.lines.size() == 2);  // the same type again is another look-up
}

TEST_CASE("classes, operations and types that nobody needs are not implemented") {
    Bench bench(Action::allow);
    CHECK(bench.code_of(asked("a.example.org", type_any)) == Code::not_implemented);
    for (const std::uint16_t of_class : Numbers{0, 3, 4, 254, 255})
        CHECK(bench.code_of(asked("a.example.org", type_a, of_class)) == Code::not_implemented);
    Message update = asked("a.example.org");
    update[2] = 5U << 3U;
    CHECK(bench.code_of(update) == Code::not_implemented);
    CHECK(bench.kept.lines.empty());
}

TEST_CASE("an allowed name has no records of types that are not passed on") {
    Bench bench(Action::allow);
    for (const std::uint16_t type : Numbers{0, 3, 10, 41, 64, 65, 99, 249, 252, 32769, 65535})
        CHECK(bench.code_of(asked("a.example.org", type)) == Code::ok);
}

TEST_CASE("a message that is no query is malformed, and one without a header is not answered") {
    Bench bench(Action::allow);
    Message two = asked("a.example.org");
    two[5] = 2;
    CHECK(bench.code_of(two) == Code::malformed);
    CHECK_FALSE(bench.take({1, 2, 3}));
    CHECK(bench.kept.lines.empty());
}

TEST_CASE("what cannot be the name of a host is denied, though the default allows") {
    Bench bench(Action::allow);
    CHECK(bench.code_of(asked("a b.example.org")) == Code::no_such_name);
    CHECK(bench.kept.count("not the name of a host") == 1);
    CHECK(bench.code_of(asked("printer.local")) == Code::no_such_name);
    CHECK(bench.code_of(asked("intranet")) == Code::no_such_name);
    CHECK(bench.kept.count("a name of the local network") == 2);
}

TEST_CASE("the machine's own names are answered and bound to no address") {
    Bench bench(Action::deny);
    for (const std::string_view name : {"localhost", "a.b.localhost"}) {
        CHECK(bench.code_of(asked(name)) == Code::ok);
        const Message& reply = bench.replies.back();
        CHECK(Message(reply.end() - 4, reply.end()) == Message{127, 0, 0, 1});
    }
    CHECK(bench.kept.lines.empty());
    CHECK(bench.bindings.names_of(rules::tests::address("127.0.0.1")) == nullptr);
}

TEST_CASE("the name of an address is one that a look-up gave it") {
    Bench bench(Action::deny);
    bench.bindings.bind("www.example.org", rules::tests::address("203.0.113.7"));
    bench.bindings.bind("six.example.org", rules::tests::address("2001:db8::1"));
    const std::string six = "1.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.8.b.d.0.1.0.0.2.ip6.arpa";
    CHECK(bench.code_of(asked("7.113.0.203.in-addr.arpa", type_ptr)) == Code::ok);
    CHECK(bench.code_of(asked(six, type_ptr)) == Code::ok);
    CHECK(bench.code_of(asked("8.113.0.203.in-addr.arpa", type_ptr)) == Code::no_such_name);
    CHECK(bench.code_of(asked("secret.in-addr.arpa", type_ptr)) == Code::no_such_name);
}

TEST_CASE("a name that cannot be recorded is not looked up") {
    Bench bench(Action::allow);
    const auto full = fakes::full_log();
    bench.run.decide.log = full.get();
    CHECK(bench.code_of(asked("a.example.org", 65)) == Code::no_such_name);
    CHECK(bench.run.decide.log_error == ENOSPC);
}

TEST_CASE("a look-up waits for its answer, which counts for the process") {
    Bench bench(Action::ask);
    CHECK_FALSE(bench.code_of(asked("a.example.org", 65)));
    CHECK_FALSE(bench.code_of(asked("a.example.org", 64)));
    CHECK(bench.queue.questions().size() == 1);
    bench.answer(Action::allow);
    CHECK(bench.answers_with(Code::ok) == 2);
    const auto counts = bench.look_ups.answered(bench.asker, {"b.example.org", "a.example.org"});
    REQUIRE(counts);
    CHECK(counts->action == Action::allow);
    CHECK_FALSE(bench.look_ups.answered({.process = 1, .parent = 0, .start_time = 1, .program = {}},
                                        {"a.example.org"}));
}

TEST_CASE("a denial by a person is an answer to every waiting query") {
    Bench bench(Action::ask);
    for (const std::uint16_t type : Numbers{1, 28, 65})
        CHECK_FALSE(bench.code_of(asked("a.example.org", type)));
    bench.answer(Action::deny);
    CHECK(bench.answers_with(Code::no_such_name) == 3);
}

TEST_CASE("every query gets an answer, however many wait for one name") {
    Bench bench(Action::ask);
    constexpr std::size_t many = 200;
    for (std::size_t count = 0; count < many; ++count) REQUIRE(bench.take(asked("a.example.org", 65)));
    const std::size_t at_once = bench.answers_with(Code::failed);
    CHECK(at_once > 0);     // memory is bounded
    CHECK(at_once < many);  // and some wait
    bench.answer(Action::allow);
    CHECK(bench.replies.size() == many);
    CHECK(bench.answers_with(Code::ok) == many - at_once);
}

TEST_CASE("a question that is withdrawn leaves nothing behind") {
    Bench bench(Action::ask);
    const pid_t child = ::fork();
    if (child == 0) ::_exit(0);
    REQUIRE(child > 0);
    bench.asker.process = child;
    CHECK_FALSE(bench.code_of(asked("a.example.org", type_a)));
    CHECK_FALSE(bench.code_of(asked("a.example.org", type_aaaa)));
    CHECK(bench.queue.questions().size() == 1);
    REQUIRE(::waitpid(child, nullptr, 0) == child);
    CHECK_FALSE(bench.queue.tick());
    CHECK(bench.queue.questions().empty());
    bench.run_loop();
    CHECK(bench.answers_with(Code::failed) == 2);
    // The same process number and name can ask anew, and are asked about.
    CHECK_FALSE(bench.code_of(asked("a.example.org", type_a)));
    CHECK(bench.queue.questions().size() == 1);
    bench.answer(Action::deny);
    CHECK(bench.answers_with(Code::no_such_name) == 1);
}

TEST_CASE("a question that could not be asked takes no later one with it") {
    Bench bench(Action::ask);
    bench.queue.open(false);
    CHECK(bench.code_of(asked("a.example.org", type_a)) == Code::no_such_name);
    bench.queue.open(true);
    CHECK_FALSE(bench.code_of(asked("a.example.org", type_a)));
    bench.run_loop();  // the first question's waiter goes only now
    CHECK(bench.answers_with(Code::failed) == 0);
    bench.answer(Action::deny);
    CHECK(bench.answers_with(Code::no_such_name) == 2);
}

TEST_CASE("the names below a zone are offered unless the zone is a public suffix") {
    struct Expected {
        std::string_view name;
        bool offered;
    };
    for (const Expected& of : {Expected{"www.example.org", true},
                               {"a.b.example.org", true},
                               {"example.org", false},
                               {"user.github.io", false},
                               {"a.user.github.io", true},
                               {"a.co.uk", false}}) {
        Bench bench(Action::ask);
        CHECK_FALSE(bench.code_of(asked(of.name, 65)));
        CAPTURE(of.name);
        CHECK(bench.queue.questions().at(0).question->offers(approval::Scope::tree) == of.offered);
        bench.answer(Action::deny);
    }
}

// Type 65 is answered here: no query goes out.
TEST_CASE("names below one suffix are counted: many are worth a warning, more are denied") {
    const auto count_up = [](Bench& bench, std::size_t begin, std::size_t end) {
        std::size_t allowed = 0;
        for (std::size_t count = begin; count < end; ++count)
            allowed += bench.code_of(asked('n' + std::to_string(count) + ".example.org", 65)) == Code::ok;
        return allowed;
    };
    constexpr std::size_t many = LookUps::many_names_of_suffix, most = LookUps::max_names_of_suffix;
    rules::Rule rule = rules::tests::rule("wide", Action::allow, Operation::connect);
    rule.when.host = {{"literal.example.org", false}, {"*.example.org", true}};
    SUBCASE("of a rule") {
        Bench bench(Action::deny, {rule});
        CHECK(count_up(bench, 0, many - 1) == many - 1);
        CHECK(bench.code_of(asked("literal.example.org", 65)) == Code::ok);
        CHECK(count_up(bench, 0, many - 1) == many - 1);  // none of them is new
        CHECK(bench.kept.count("names can carry data out") == 0);
        CHECK(count_up(bench, many - 1, most + 5) == most - many + 1);
        CHECK(bench.kept.count("200 names below *.example.org") == 1);
        CHECK(bench.kept.count("more than 2000 names below one suffix") == 5);
        CHECK(count_up(bench, 0, 5) == 5);
    }
    SUBCASE("of an answer") {
        Bench bench(Action::ask);
        CHECK_FALSE(bench.code_of(asked("www.example.org", 65)));
        bench.answer(Action::allow, approval::Scope::tree);
        CHECK(count_up(bench, 0, most + 5) == most);
        CHECK(bench.kept.count("200 names below *.example.org") == 1);
        CHECK_FALSE(bench.code_of(asked("www.example.net", 65)));
        CHECK(bench.queue.questions().size() == 1);
        bench.answer(Action::deny);
    }
}
