#include "supervisor/approval/questions/question_queue.hpp"

#include <doctest/doctest.h>

#include <set>

#include "tests/fakes/approval_log.hpp"
#include "tests/fakes/hand_clock.hpp"
#include "tests/fakes/notification_source.hpp"

using namespace callgate;
using namespace callgate::approval;
using Admission = QuestionQueue::Admission;
using Applied = QuestionQueue::Applied;

namespace {

constexpr std::int64_t second = fakes::HandClock::second;

/// A queue with a clock that is moved by hand.
struct Bench final : QueueOwner {
    explicit Bench(QuestionQueue::Settings settings = {}) : queue(settings, log, *this) { queue.open(true); }
    std::int64_t now_ns() override { return now; }
    bool has_signal(pid_t thread) override { return signalled.contains(thread); }
    void resume(ParkedCalls calls) override {
        for (const ParkedCall& call : calls) {
            resumed.push_back(call.call.notification().id);
            last = call.approvals.back();
        }
        held.splice(held.end(), calls);
    }
    void questions_changed() override {}
    bool find_approver() override { return false; }
    void kill_run() override { ++kills; }

    fakes::NotificationSource source;
    fakes::ApprovalLog log;
    fakes::HandClock clock;
    std::int64_t& now = clock.now_ns;
    std::set<pid_t> signalled;
    std::vector<std::uint64_t> resumed;
    Approval last;
    ParkedCalls held;
    int kills = 0;
    std::uint64_t callers = 0;
    QuestionQueue queue;

    static Subject subject(const std::string& path, rules::OperationSet operations = rules::Operation::modify,
                           const std::string& program = "/usr/bin/tool") {
        Subject subject;
        subject.operations = operations;
        subject.object = AskedObject(rules::FileObject{path});
        subject.program = program;
        return subject;
    }
    /// Another caller asks for `path`.
    Admission ask(const std::string& path, const std::string& rule = "default") {
        Question question;
        question.subject = subject(path);
        question.key = key_of(question.subject, rule, {});
        question.rule = rule;
        question.operation = rules::Operation::modify;
        question.home = "/home/u";
        const std::uint64_t id = ++callers;
        ParkedCall call{kernel::PendingCall(source, {.id = id, .thread = static_cast<pid_t>(id)}), now, {}};
        Admission how = queue.join(question.key, call);
        if (how == Admission::unknown) how = queue.ask(std::move(question), call);
        return how;
    }
    Applied answer(std::size_t index, rules::Action action, Scope scope = Scope::once) {
        const auto open = queue.questions().at(index);
        return queue.answer(open.question->id, open.question->key, {.action = action, .scope = scope});
    }
    [[nodiscard]] const std::string& last_line() const { return log.lines.back(); }
};

}  // namespace

TEST_CASE("an answer for once lets the caller go on that waits longest") {
    Bench bench;
    CHECK(bench.ask("/a") == Admission::parked);
    CHECK(bench.ask("/a") == Admission::parked);
    REQUIRE(bench.queue.questions().size() == 1);
    CHECK(bench.queue.questions()[0].count == 2);
    CHECK(bench.answer(0, rules::Action::allow) == Applied::yes);
    CHECK(bench.resumed == std::vector<std::uint64_t>{1});
    CHECK(bench.queue.questions()[0].callers == 1);
    CHECK(bench.source.answers.empty());
    CHECK(bench.log.lines == std::vector<std::string>{"shown /a", "answered /a allow once by person x2"});
}

TEST_CASE("a denial is for all callers that wait") {
    Bench bench;
    for (int n = 0; n < 5; ++n) CHECK(bench.ask("/a") == Admission::parked);
    CHECK(bench.answer(0, rules::Action::deny) == Applied::yes);
    CHECK(bench.resumed.size() == 5);
    CHECK(bench.last.action == rules::Action::deny);
    CHECK(bench.queue.questions().empty());
}

TEST_CASE("an answer needs the question's key, and denies without it") {
    Bench bench;
    CHECK(bench.ask("/a") == Admission::parked);
    CHECK(bench.queue.answer(1, "sha256:other", {.action = rules::Action::allow}) == Applied::other_question);
    CHECK(bench.last.action == rules::Action::deny);
    CHECK(bench.queue.answer(1, "sha256:other", {.action = rules::Action::allow}) ==
          Applied::unknown_question);
}

TEST_CASE("nothing wider than what is offered can be answered") {
    Bench bench;
    CHECK(bench.ask("/home/u/x") == Admission::parked);  // its directory is home
    CHECK(bench.answer(0, rules::Action::allow, Scope::tree) == Applied::not_offered);
    CHECK(bench.last.action == rules::Action::deny);
    CHECK(bench.queue.grants().empty());
}

TEST_CASE("a grant covers the operations, the object and the program that were shown") {
    Bench bench;
    CHECK(bench.ask("/home/u/p/x") == Admission::parked);
    CHECK(bench.answer(0, rules::Action::allow, Scope::object) == Applied::yes);
    const auto granted = [&](const Subject& subject) { return bench.queue.granted(subject).has_value(); };
    CHECK(granted(Bench::subject("/home/u/p/x")));
    CHECK_FALSE(granted(Bench::subject("/home/u/p/y")));
    CHECK_FALSE(granted(Bench::subject("/home/u/p/x", rules::Operation::remove)));
    CHECK_FALSE(granted(Bench::subject("/home/u/p/x", {rules::Operation::modify, rules::Operation::read})));
    CHECK_FALSE(granted(Bench::subject("/home/u/p/x", rules::Operation::modify, "/usr/bin/other")));
    Subject of_agent = Bench::subject("/home/u/p/x");
    of_agent.party = rules::Party::agent;
    CHECK_FALSE(granted(of_agent));
    Question asked;
    asked.subject = of_agent;
    Grant of_party = grant_of(asked, {.action = rules::Action::allow, .scope = Scope::object});
    Subject of_tools = of_agent;
    of_tools.party = rules::Party::tools;
    CHECK(of_party.covers(of_agent));
    CHECK_FALSE(of_party.covers(of_tools));
    of_party.subject.party = rules::Party::tools;
    CHECK(of_party.covers(of_agent));
    CHECK(of_party.covers(of_tools));
    Subject moved = Bench::subject("/home/u/p/x");
    moved.second_path = "/home/u/p/z";
    CHECK_FALSE(granted(moved));
}

TEST_CASE("a grant of a change of settings is for these values alone, and no directory holds it") {
    Question question;
    question.subject = Bench::subject("/home/u/p/x.lock");
    question.subject.second_path = "/home/u/p/x";
    question.home = "/home/u";
    CHECK(question.offers(Scope::tree));
    question.subject.arguments = {R"(url: "a" -> "b")"};
    CHECK_FALSE(question.offers(Scope::tree));
    CHECK(question.offers(Scope::object));
    Subject other = question.subject;
    other.arguments = {R"(url: "a" -> "c")"};
    CHECK(key_of(other, "rule", {}) != key_of(question.subject, "rule", {}));
    const Grant one = grant_of(question, {.action = rules::Action::allow, .scope = Scope::object});
    CHECK(one.covers(question.subject));
    CHECK_FALSE(one.covers(other));
    CHECK(one.text().ends_with(R"(/home/u/p/x.lock -> /home/u/p/x: url: "a" -> "b")"));
    question.subject.arguments.clear();
    const Grant tree = grant_of(question, {.action = rules::Action::allow, .scope = Scope::tree});
    CHECK(tree.covers(question.subject));
    CHECK_FALSE(tree.covers(other));
}

TEST_CASE("a grant of a directory covers what lies beneath it, by components") {
    Bench bench;
    CHECK(bench.ask("/home/u/p/x") == Admission::parked);
    CHECK(bench.answer(0, rules::Action::allow, Scope::tree) == Applied::yes);
    const auto granted = [&](const Subject& subject) { return bench.queue.granted(subject).has_value(); };
    CHECK(granted(Bench::subject("/home/u/p/deep/y")));
    CHECK_FALSE(granted(Bench::subject("/home/u/pq")));
    CHECK_FALSE(granted(Bench::subject("/home/u")));
    const auto revoked = bench.queue.grants();
    REQUIRE(revoked.size() == 1);
    CHECK(bench.queue.revoke(revoked[0].number, {}) == Applied::yes);
    CHECK_FALSE(granted(Bench::subject("/home/u/p/x")));
    CHECK(bench.queue.revoke(revoked[0].number, {}) == Applied::unknown_question);
    CHECK(bench.last_line() == "revoked 1");
}

TEST_CASE("the names below a name's zone are offered where not everybody can have one") {
    Question question;
    question.subject = Bench::subject("");
    question.subject.object = AskedObject(rules::HostName{"www.example.org"});
    CHECK(question.offers(Scope::object));
    CHECK_FALSE(question.offers(Scope::tree));
    question.own_zone = true;
    CHECK(question.offers(Scope::tree));
    CHECK(question.directory_of_tree() == "*.example.org");
    question.subject.program = "";
    CHECK_FALSE(question.offers(Scope::tree));
}

TEST_CASE("a grant of a name, or of the names below its zone, is one for look-ups and connects") {
    Question question;
    question.subject = Bench::subject("");
    question.subject.object = AskedObject(rules::HostName{"www.example.org"});
    question.own_zone = true;
    const Grant one = grant_of(question, {.action = rules::Action::allow, .scope = Scope::object});
    const Grant all = grant_of(question, {.action = rules::Action::allow, .scope = Scope::tree});
    CHECK(one.text() == "look up www.example.org and connect to it");
    CHECK(all.text() == "look up *.example.org and connect to it");
    Subject asked = question.subject;
    const auto covered = [&asked](const Grant& grant, const rules::Object& object) {
        asked.object = AskedObject(object);
        return grant.covers(asked);
    };
    const auto connect_to = [](const std::vector<std::string>& names) {
        return rules::Endpoint{.address = {}, .port = 443, .names = names};
    };
    struct Expected {
        std::string name;
        bool by_one, by_all;
    };
    for (const Expected& of : {Expected{"www.example.org", true, true},
                               {"api.example.org", false, true},
                               {"a.b.example.org", false, true},
                               {"example.org", false, false},
                               {"evilexample.org", false, false},
                               {"www.example.org.evil.test", false, false},
                               {"*.example.org.test", false, false},
                               {"", false, false}}) {
        CAPTURE(of.name);
        CHECK(covered(one, rules::HostName{of.name}) == of.by_one);
        CHECK(covered(all, rules::HostName{of.name}) == of.by_all);
        const std::vector<std::string> names{"other.test", of.name};
        CHECK(covered(one, connect_to(names)) == of.by_one);
        CHECK(covered(all, connect_to(names)) == of.by_all);
    }
    CHECK_FALSE(covered(all, connect_to({})));
    CHECK_FALSE(covered(all, rules::FileObject{"/a.example.org"}));
    CHECK_FALSE(covered(all, rules::UnixObject{"www.example.org", rules::UnixType::stream}));
    CHECK_FALSE(all.touches("/a.example.org"));
    CHECK_FALSE(covered(grant_of(question, {.scope = Scope::tree}), rules::FileObject{"/"}));
    asked = question.subject;
    asked.program = "/usr/bin/other";
    CHECK_FALSE(all.covers(asked));
}

TEST_CASE("a denying grant comes before an allowing one") {
    Bench bench;
    CHECK(bench.ask("/home/u/p/x") == Admission::parked);
    CHECK(bench.answer(0, rules::Action::allow, Scope::tree) == Applied::yes);
    CHECK(bench.ask("/home/u/p/y") == Admission::parked);
    CHECK(bench.answer(0, rules::Action::deny, Scope::object) == Applied::yes);
    CHECK(bench.queue.granted(Bench::subject("/home/u/p/y"))->action == rules::Action::deny);
    CHECK(bench.queue.granted(Bench::subject("/home/u/p/x"))->action == rules::Action::allow);
}

TEST_CASE("a use of a grant is recorded only while the grant still decides") {
    Bench bench;
    CHECK(bench.ask("/tree/a/file") == Admission::parked);
    CHECK(bench.answer(0, rules::Action::allow, Scope::object) == Applied::yes);
    const Subject asked = Bench::subject("/tree/a/file");
    const auto granted = bench.queue.granted(asked);
    REQUIRE(granted);
    std::uint64_t recorded = 0;
    const auto record = [&](const QuestionQueue::Granted& now) { recorded = now.grant; };
    CHECK(bench.queue.while_granted(asked, rules::Action::allow, record));
    CHECK(recorded == granted->grant);
    recorded = 0;
    CHECK_FALSE(bench.queue.while_granted(asked, rules::Action::deny, record));
    CHECK(bench.queue.revoke(granted->grant, {}) == Applied::yes);
    CHECK_FALSE(bench.queue.while_granted(asked, rules::Action::allow, record));
    CHECK(recorded == 0);
}

TEST_CASE("an object that moves to a granted name gains by it") {
    Bench bench;
    CHECK(bench.ask("/tree/a/file") == Admission::parked);
    CHECK_FALSE(bench.queue.gained_by_move("/tree/b/x", "/tree/a/x"));
    CHECK(bench.answer(0, rules::Action::allow, Scope::tree) == Applied::yes);
    CHECK(bench.queue.gained_by_move("/tree/b/x", "/tree/a/x"));
    CHECK(bench.queue.gained_by_move("/tree/b", "/tree/a"));
    CHECK(bench.queue.gained_by_move("/tree/b", "/tree"));  // with the directory beneath it
    CHECK_FALSE(bench.queue.gained_by_move("/tree/a/x", "/tree/a/deep/x"));
    CHECK_FALSE(bench.queue.gained_by_move("/tree/b/x", "/tree/ab"));
    CHECK(bench.ask("/tree/c/file") == Admission::parked);
    CHECK(bench.answer(0, rules::Action::allow, Scope::object) == Applied::yes);
    CHECK(bench.queue.gained_by_move("/tree/a/x", "/tree/c/file"));
    CHECK(bench.queue.gained_by_move("/tree/a", "/tree/c"));
    CHECK_FALSE(bench.queue.gained_by_move("/tree/a/x", "/tree/c/other"));
    CHECK(bench.ask("/tree/d/file") == Admission::parked);
    CHECK(bench.answer(0, rules::Action::deny, Scope::object) == Applied::yes);
    CHECK_FALSE(bench.queue.gained_by_move("/tree/b/x", "/tree/d/file"));
}

TEST_CASE("grants are limited in number; one that cannot be kept counts once") {
    Bench bench({.new_per_minute = 1000});
    for (std::size_t n = 0; n < Grants::max_grants + 1; ++n) {
        CHECK(bench.ask("/home/u/p/" + std::to_string(n)) == Admission::parked);
        CHECK(bench.answer(0, rules::Action::allow, Scope::object) == Applied::yes);
    }
    CHECK(bench.queue.grants().size() == Grants::max_grants);
    CHECK(bench.last.grant == 0);
    CHECK(bench.last_line() == "answered /home/u/p/256 allow once by person x1");
    CHECK(bench.ask("/home/u/p/all") == Admission::parked);
    CHECK(bench.answer(0, rules::Action::deny, Scope::run) == Applied::yes);
    CHECK(bench.queue.granted(Bench::subject("/other"))->action == rules::Action::deny);
}

TEST_CASE("a question without an answer is denied in time, on record") {
    Bench bench;
    CHECK(bench.ask("/a") == Admission::parked);
    bench.now += 59 * second;
    CHECK(bench.queue.tick());
    CHECK(bench.resumed.empty());
    bench.now += 2 * second;
    CHECK_FALSE(bench.queue.tick());
    CHECK(bench.resumed.size() == 1);
    CHECK(bench.last.by == rules::DecidedBy::timeout);
    CHECK(bench.last_line() == "answered /a deny once by timeout x1");
}

TEST_CASE("an approver has the whole time for the next question, and a rest once begun") {
    Bench bench;
    CHECK(bench.ask("/a") == Admission::parked);
    CHECK(bench.ask("/b") == Admission::parked);
    bench.now += 50 * second;
    CHECK(bench.answer(0, rules::Action::deny) == Applied::yes);
    bench.now += 50 * second;
    CHECK(bench.queue.tick());
    CHECK(bench.resumed.size() == 1);
    bench.queue.rest(bench.queue.questions()[0].question->id);
    bench.now += 500 * second;
    CHECK(bench.queue.tick());
    bench.queue.rest(bench.queue.questions()[0].question->id);  // no second time
    bench.now += 101 * second;
    CHECK_FALSE(bench.queue.tick());
}

TEST_CASE("a question is withdrawn at the next tick when its caller is gone") {
    Bench bench;
    CHECK(bench.ask("/a") == Admission::parked);
    CHECK(bench.ask("/a") == Admission::parked);
    bench.source.gone = {1};
    CHECK(bench.queue.tick());
    CHECK(bench.queue.questions()[0].callers == 1);
    bench.source.gone = {1, 2};
    CHECK_FALSE(bench.queue.tick());
    CHECK(bench.last_line() == "withdrawn /a");
    CHECK(bench.resumed.empty());
}

TEST_CASE("a caller with a signal is interrupted, and its question waits for it to come again") {
    Bench bench;
    CHECK(bench.ask("/a") == Admission::parked);
    bench.signalled = {1};
    CHECK(bench.queue.tick());
    CHECK(bench.source.answer_to(1).value().error == 512);
    bench.signalled.clear();
    CHECK(bench.ask("/a") == Admission::parked);
    CHECK(bench.log.lines.size() == 1);
    bench.signalled = {2};
    CHECK(bench.queue.tick());
    bench.now += second;
    CHECK_FALSE(bench.queue.tick());
    CHECK(bench.last_line() == "withdrawn /a");
}

TEST_CASE("questions are limited in number and rate for all programs; equal ones still join") {
    Bench bench({.open_questions = 3, .new_per_minute = 4});
    for (const char* path : {"/a", "/b", "/c"}) CHECK(bench.ask(path) == Admission::parked);
    CHECK(bench.ask("/d") == Admission::too_many);
    CHECK(bench.ask("/a") == Admission::parked);
    CHECK(bench.answer(0, rules::Action::deny) == Applied::yes);
    CHECK(bench.ask("/d") == Admission::parked);
    CHECK(bench.source.answer_to(4).value().error == EPERM);  // the caller denies the call
}

TEST_CASE("a flood that nobody answers is limited; each answer leaves room for one question") {
    Bench bench({.timeout_ns = 10 * second, .new_per_minute = 2});
    CHECK(bench.ask("/a") == Admission::parked);
    CHECK(bench.ask("/b") == Admission::parked);
    CHECK(bench.ask("/c") == Admission::too_often);
    CHECK(bench.ask("/c", "another rule") == Admission::parked);
    CHECK(bench.answer(0, rules::Action::allow) == Applied::yes);
    CHECK(bench.ask("/d") == Admission::parked);
    CHECK(bench.ask("/e") == Admission::too_often);
    bench.now += 11 * second;  // nobody answered: no room
    CHECK_FALSE(bench.queue.tick());
    CHECK(bench.ask("/e") == Admission::too_often);
    bench.now += 60 * second;
    CHECK(bench.ask("/e") == Admission::parked);
}

TEST_CASE("a question that was denied for once says so when it comes again") {
    Bench bench;
    const auto again = [&] { return bench.queue.questions().at(0).question->again; };
    CHECK(bench.ask("/a") == Admission::parked);
    CHECK_FALSE(again());
    CHECK(bench.answer(0, rules::Action::deny) == Applied::yes);
    CHECK(bench.ask("/a") == Admission::parked);
    CHECK(again());
    CHECK(bench.answer(0, rules::Action::deny) == Applied::yes);
    CHECK(bench.ask("/b") == Admission::parked);
    CHECK_FALSE(again());
    CHECK(bench.answer(0, rules::Action::allow) == Applied::yes);
    CHECK(bench.ask("/b") == Admission::parked);
    CHECK_FALSE(again());
}

TEST_CASE(
    "a denial of all further questions answers those that wait, and none is asked until it is taken back") {
    Bench bench;
    CHECK(bench.ask("/tree/a/file") == Admission::parked);
    CHECK(bench.answer(0, rules::Action::allow, Scope::object) == Applied::yes);
    for (const char* path : {"/b", "/c", "/d"}) CHECK(bench.ask(path) == Admission::parked);
    CHECK(bench.answer(1, rules::Action::allow, Scope::run) == Applied::not_offered);
    CHECK(bench.queue.questions().size() == 2);
    CHECK(bench.answer(0, rules::Action::deny, Scope::run) == Applied::yes);
    CHECK(bench.queue.questions().empty());
    CHECK(bench.resumed.size() == 4);
    CHECK(bench.last_line() == "answered /d deny once by person x1");
    CHECK(bench.ask("/e") == Admission::denied_all);  // a call that met no grant just before
    const auto denied = bench.queue.granted(Bench::subject("/e", rules::Operation::modify, ""));
    REQUIRE(denied);
    CHECK(denied->action == rules::Action::deny);
    // An object that was allowed before is no question any more.
    CHECK(bench.queue.granted(Bench::subject("/tree/a/file"))->action == rules::Action::allow);
    CHECK(bench.queue.revoke(denied->grant, {}) == Applied::yes);
    CHECK(bench.ask("/e") == Admission::parked);
}

TEST_CASE("parked calls are limited, and thousands of equal ones are one question") {
    Bench bench({.calls = 10'000});
    for (int n = 0; n < 10'000; ++n) CHECK(bench.ask("/a") == Admission::parked);
    CHECK(bench.ask("/a") == Admission::too_many);
    CHECK(bench.queue.questions()[0].count == 10'000);
    CHECK(bench.answer(0, rules::Action::allow, Scope::object) == Applied::yes);
    CHECK(bench.resumed.size() == 10'000);
    CHECK(bench.ask("/a") == Admission::parked);
}

TEST_CASE("a question that cannot be recorded is not asked, and such an answer denies") {
    Bench bench;
    bench.log.writable = false;
    CHECK(bench.ask("/a") == Admission::unrecorded);
    bench.log.writable = true;
    CHECK(bench.ask("/home/u/p/x") == Admission::parked);
    bench.log.writable = false;
    CHECK(bench.answer(0, rules::Action::allow, Scope::object) == Applied::unrecorded);
    CHECK(bench.last.action == rules::Action::deny);
    CHECK(bench.queue.grants().empty());
}

TEST_CASE("without an approver questions that wait are denied, and no new one is asked") {
    Bench bench;
    CHECK(bench.ask("/a") == Admission::parked);
    bench.queue.open(false);
    CHECK(bench.resumed.size() == 1);
    CHECK(bench.last.action == rules::Action::deny);
    CHECK(bench.ask("/a") == Admission::nobody);
}

TEST_CASE("an answer of kill ends the run, once it is on record") {
    Bench bench;
    CHECK(bench.ask("/a") == Admission::parked);
    bench.log.writable = false;
    CHECK(bench.answer(0, rules::Action::kill) == Applied::unrecorded);
    CHECK(bench.kills == 0);
    bench.log.writable = true;
    CHECK(bench.ask("/a") == Admission::parked);
    CHECK(bench.answer(0, rules::Action::kill) == Applied::yes);
    CHECK(bench.kills == 1);
}
