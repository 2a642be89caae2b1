#include "supervisor/approval/terminal/prompt_engine.hpp"

#include <doctest/doctest.h>

#include "supervisor/approval/terminal/proposal.hpp"
#include "tests/unit/temporary_directory.hpp"

using namespace callgate;
using namespace callgate::approval;
using Input = PromptEngine::Input;
using Kind = PromptStep::Kind;

namespace {

constexpr std::int64_t drawn = 1'000'000'000, later = drawn + PromptKeys::guard_ns;

QuestionView question_on(const std::string& path, std::uint64_t id = 7) {
    QuestionView question;
    question.run = "k3f9ab";
    question.id = id;
    question.key = "sha256:" + std::to_string(id);
    question.operation = "read";
    question.operations = {"read"};
    question.kind = "file";
    question.object = path;
    question.program = "/usr/bin/cat";
    question.rule = "default";
    question.scopes = {Scope::once, Scope::object, Scope::tree};
    question.tree = "/home/u/p";
    question.count = 1;
    return question;
}

/// A person at a prompt, with a clock that is moved by hand.
struct Prompt {
    explicit Prompt(Input input, const std::string& path = "/home/u/p/x", std::string config = "")
        : engine(input, std::move(config)) {
        show(path);
    }
    void show(const std::string& path, std::uint64_t id = 7) {
        engine.open(question_on(path, id));
        draw();
    }
    void draw() {
        frame = engine.draw({.columns = 80, .plain = true, .now_ns = now});
        engine.drawn(now);
    }
    PromptStep wait_and_type(std::string_view bytes) {
        now += PromptKeys::guard_ns;
        CHECK(engine.tick(now).kind == Kind::opened);
        return engine.feed(bytes, now);
    }

    PromptEngine engine;
    std::string frame;
    std::int64_t now = drawn;
};

std::string line(Input input, const std::string& text) { return text + (input == Input::keys ? '\r' : '\n'); }

constexpr Input inputs[] = {Input::keys, Input::lines, Input::stream};

}  // namespace

TEST_CASE("every letter answers the same at each kind of prompt") {
    struct Case {
        const char* typed;
        rules::Action action;
        Scope scope;
    };
    using rules::Action;
    constexpr Case cases[] = {{"", Action::deny, Scope::once},     {"a", Action::allow, Scope::once},
                              {"s", Action::allow, Scope::object}, {"t", Action::allow, Scope::tree},
                              {"d", Action::deny, Scope::object},  {"D", Action::deny, Scope::run},
                              {"k", Action::kill, Scope::once}};
    for (const Input input : inputs) {
        for (const Case& one : cases) {
            Prompt prompt(input);
            const PromptStep step = prompt.wait_and_type(line(input, one.typed));
            CHECK(step.kind == Kind::answer);
            CHECK(step.action == one.action);
            CHECK(step.scope == one.scope);
            CHECK(step.began);
            CHECK(prompt.engine.question()->key == "sha256:7");
        }
    }
}

TEST_CASE("a denial for the run is for once where nothing wider is offered") {
    Prompt prompt(Input::lines);
    QuestionView question = question_on("/x");
    question.scopes = {Scope::once};
    prompt.engine.open(std::move(question));
    prompt.draw();
    const PromptStep step = prompt.wait_and_type("d\n");
    CHECK(step.kind == Kind::answer);
    CHECK(step.scope == Scope::once);
}

TEST_CASE("bytes in the guard time never answer, and the mark shows its end") {
    for (const Input input : {Input::keys, Input::lines}) {
        Prompt prompt(input);
        CHECK(prompt.engine.due_ns() == later);
        PromptStep early = prompt.engine.feed(line(input, "a"), later - 1);
        CHECK(early.kind == Kind::wait);
        CHECK_FALSE(early.began);
        CHECK(early.text == (input == Input::keys ? "" : "(typed too early: ignored)\n"));
        CHECK(prompt.engine.tick(later - 1).text.empty());
        const PromptStep opened = prompt.engine.tick(later);
        CHECK(opened.kind == Kind::opened);
        CHECK(opened.text.ends_with("> "));
        CHECK_FALSE(prompt.engine.due_ns().has_value());
        CHECK(prompt.engine.tick(later).kind == Kind::wait);
        const PromptStep step = prompt.engine.feed(line(input, ""), later);
        CHECK(step.kind == Kind::answer);
        CHECK(step.action == rules::Action::deny);
    }
}

TEST_CASE("bytes that come while no frame is on the screen never answer") {
    for (const Input input : inputs) {
        Prompt prompt(input);
        prompt.engine.close();
        CHECK(prompt.engine.feed(line(input, "a"), later).kind == Kind::wait);
        CHECK(prompt.engine.feed("a", later).text.empty());
        CHECK(prompt.engine.end_of_input().kind == Kind::wait);
        CHECK(prompt.engine.tick(later).kind == Kind::wait);
        prompt.engine.open(question_on("/home/u/p/x"));
        static_cast<void>(prompt.engine.draw({}));
        CHECK(prompt.engine.feed(line(input, "a"), later).kind == Kind::wait);  // not written yet
        prompt.engine.drawn(later);
        prompt.now = later;
        const PromptStep step = prompt.wait_and_type(line(input, ""));
        CHECK(step.kind == Kind::answer);
        CHECK(step.action == rules::Action::deny);
    }
}

TEST_CASE("one prompt takes one line; what comes behind it answers no other") {
    for (const Input input : inputs) {
        Prompt prompt(input);
        CHECK(prompt.wait_and_type(line(input, "d") + line(input, "a") + "a").action == rules::Action::deny);
        prompt.show("/home/u/p/y", 8);
        const PromptStep step = prompt.wait_and_type(line(input, ""));
        CHECK(step.action == rules::Action::deny);
        CHECK(step.scope == Scope::once);
    }
}

TEST_CASE("a paste never answers, also where it lasts over the next prompt") {
    for (const Input input : inputs) {
        Prompt prompt(input);
        PromptStep step = prompt.wait_and_type("\x1b[200~a" + line(input, ""));
        CHECK(step.kind == Kind::wait);
        CHECK_FALSE(step.began);
        CHECK(step.text == (input == Input::keys ? "" : "(pasted: ignored)\n> "));
        prompt.show("/home/u/p/y", 8);
        step = prompt.wait_and_type("a" + line(input, "") + "\x1b[201~" + line(input, ""));
        CHECK((step.kind == Kind::wait || step.action == rules::Action::deny));
        CHECK(step.action != rules::Action::allow);
    }
}

TEST_CASE("a frame that hides something takes no allowing letter before the details are drawn") {
    const std::string path = "/home/u/p/" + std::string(3000, 'x');
    for (const Input input : inputs) {
        Prompt prompt(input, path);
        CHECK(prompt.frame.find("more is hidden") != std::string::npos);
        for (const char* letter : {"a", "s", "t"}) {
            const PromptStep step = prompt.engine.due_ns()
                                        ? prompt.wait_and_type(line(input, letter))
                                        : prompt.engine.feed(line(input, letter), prompt.now);
            CHECK(step.kind == Kind::wait);
            CHECK(step.text.ends_with("> "));
        }
        CHECK(prompt.engine.feed(line(input, "v"), prompt.now).kind == Kind::redraw);
        // The caller has not drawn yet.
        CHECK(prompt.engine.feed(line(input, "a"), prompt.now).kind == Kind::wait);
        prompt.draw();
        CHECK(prompt.frame.find("more is hidden") == std::string::npos);
        CHECK(prompt.wait_and_type(line(input, "a")).action == rules::Action::allow);
        prompt.show(path, 8);  // the next question begins anew
        CHECK(prompt.wait_and_type(line(input, "a")).kind == Kind::wait);
    }
}

TEST_CASE("a frame that the screen does not hold takes no allowing letter") {
    const auto answer_to = [](const std::string& path, std::size_t rows, bool scrolls_back) {
        PromptEngine engine(Input::keys, "");
        engine.open(question_on(path));
        std::int64_t now = drawn;
        PromptStep step;
        for (const char* const keys : {"v\r", "a\r"}) {
            static_cast<void>(engine.draw(
                {.columns = 80, .rows = rows, .scrolls_back = scrolls_back, .plain = true, .now_ns = now}));
            engine.drawn(now);
            now += PromptKeys::guard_ns;
            static_cast<void>(engine.tick(now));
            step = engine.feed(keys, now);
        }
        return step;
    };
    const std::string path = "/home/u/p/" + std::string(3000, 'x');
    CHECK(answer_to(path, 24, false).kind == Kind::wait);
    CHECK(answer_to(path, 100, false).action == rules::Action::allow);
    CHECK(answer_to(path, 24, true).action == rules::Action::allow);
    CHECK(answer_to("/home/u/p/x", 24, false).action == rules::Action::allow);
    CHECK(answer_to("/home/u/p/x", 8, false).kind == Kind::wait);
}

TEST_CASE("a wider question that takes the place of another starts a guard time of its own") {
    Prompt prompt(Input::keys);
    prompt.now = later;
    CHECK(prompt.engine.tick(later).kind == Kind::opened);
    CHECK(prompt.engine.feed("a", later).text == "a");  // typed, and not yet sent
    prompt.show("/etc/shadow", 8);
    CHECK(prompt.engine.feed("\r", later).kind == Kind::wait);
    const PromptStep step = prompt.wait_and_type("\r");
    CHECK(step.action == rules::Action::deny);  // without the letter
}

TEST_CASE("the end of input, Ctrl-C and a lone Esc deny; Ctrl-Z answers nothing") {
    for (const Input input : inputs) {
        const Prompt prompt(input);
        const PromptStep step = prompt.engine.end_of_input();
        CHECK(step.kind == Kind::answer);
        CHECK(step.action == rules::Action::deny);
    }
    Prompt interrupted(Input::keys);
    CHECK(interrupted.wait_and_type("a\x03").action == rules::Action::deny);
    Prompt escaped(Input::keys);
    CHECK(escaped.wait_and_type("a\x1b").kind == Kind::wait);
    CHECK(escaped.engine.due_ns() == later + PromptKeys::escape_ns);
    CHECK(escaped.engine.tick(later + PromptKeys::escape_ns - 1).kind == Kind::wait);
    const PromptStep step = escaped.engine.tick(later + PromptKeys::escape_ns);
    CHECK(step.kind == Kind::answer);
    CHECK(step.action == rules::Action::deny);
    Prompt suspended(Input::keys);
    CHECK(suspended.engine.feed("\x1a", drawn).kind == Kind::suspend);
    CHECK(suspended.engine.question() != nullptr);
}

TEST_CASE("the person has begun to answer once for each question") {
    for (const Input input : inputs) {
        Prompt prompt(input);
        CHECK(prompt.wait_and_type(line(input, "z")).began);
        CHECK_FALSE(prompt.engine.feed(line(input, "z"), prompt.now).began);
        prompt.draw();
        CHECK_FALSE(prompt.wait_and_type(line(input, "z")).began);
        prompt.show("/home/u/p/y", 8);
        CHECK(prompt.wait_and_type(line(input, "z")).began);
    }
}

TEST_CASE("a proposal is written, and the question still waits") {
    const tests::TemporaryDirectory directory;
    const std::string config = directory / "config";
    for (const Input input : inputs) {
        Prompt prompt(input, "/home/u/p/x", config);
        const PromptStep step = prompt.wait_and_type(line(input, "r"));
        CHECK(step.kind == Kind::wait);
        CHECK(step.text.find("proposed as k3f9ab-7") != std::string::npos);
        CHECK(step.text.ends_with("> "));
        CHECK(prompt.engine.question() != nullptr);
        REQUIRE(pending_rules(config).size() == 1);
        CHECK(pending_rules(config)[0].rule == proposed_rule(question_on("/home/u/p/x")).value());
        CHECK(drop_pending(config, "k3f9ab-7"));
    }
    Prompt nowhere(Input::lines);
    CHECK(nowhere.wait_and_type("r\n").text.starts_with("no rule can be proposed: "));
}

TEST_CASE("a stream gives lines in pieces and several at once, and only the first answer counts") {
    Prompt prompt(Input::stream);
    CHECK(prompt.engine.due_ns() == drawn);
    CHECK(prompt.engine.tick(drawn).text == "> ");
    CHECK(prompt.engine.feed("yes", drawn).text.empty());
    const PromptStep step = prompt.engine.feed("\nz\na\nk\n", drawn);
    CHECK(step.kind == Kind::answer);
    CHECK(step.action == rules::Action::allow);
    CHECK(step.text == "not understood; Enter denies\n> not understood; Enter denies\n> ");
}

TEST_CASE("each text of a raw terminal has its carriage return, and the count that is drawn is the last") {
    Prompt prompt(Input::keys);
    CHECK(prompt.frame.find("times") == std::string::npos);
    std::size_t newlines = 0;
    for (std::size_t at = prompt.frame.find('\n'); at != std::string::npos;
         at = prompt.frame.find('\n', at + 1)) {
        ++newlines;
        CHECK(prompt.frame[at - 1] == '\r');
    }
    CHECK(newlines > 4);
    CHECK(prompt.engine.shows("k3f9ab", 7));
    CHECK_FALSE(prompt.engine.shows("other1", 7));
    CHECK_FALSE(prompt.engine.shows("k3f9ab", 8));
    prompt.engine.set_count(14);
    prompt.draw();
    CHECK(prompt.frame.find("14 times") != std::string::npos);
    CHECK(prompt.wait_and_type("zz\r").text == "zz\r\nnot understood; Enter denies\r\n> ");
}

TEST_CASE("u goes up one directory, w takes writing in, and t answers with what was drawn") {
    Prompt prompt(Input::stream);
    const auto press = [&](const std::string& key) {
        static_cast<void>(prompt.engine.tick(prompt.now));
        return prompt.engine.feed(key + '\n', prompt.now);
    };
    QuestionView question = question_on("/home/u/p/q/r/x");
    question.tree = "/home/u/p/q/r";
    question.widest = "/home/u/p";
    question.offers_writing = true;
    prompt.engine.open(question);
    prompt.draw();
    for (const std::string tree : {"/home/u/p/q", "/home/u/p", "/home/u/p/q/r", "/home/u/p/q"}) {
        CHECK(press("u").kind == Kind::redraw);
        prompt.draw();
        CHECK(prompt.frame.find("beneath    " + tree + '\n') != std::string::npos);
    }
    CHECK(press("w").kind == Kind::redraw);
    prompt.draw();
    CHECK(prompt.frame.find("/home/u/p/q   (read and write)") != std::string::npos);
    const PromptStep step = press("t");
    CHECK(step.kind == Kind::answer);
    CHECK(step.width.tree == "/home/u/p/q");
    CHECK(step.width.reads_and_writes);
    SUBCASE("the next question begins at its own directory") {
        prompt.show("/home/u/p/x", 8);
        CHECK(prompt.frame.find("beneath    /home/u/p\n") != std::string::npos);
        CHECK(press("u").kind == Kind::wait);
        CHECK(press("w").kind == Kind::wait);
        CHECK(press("t").width.tree.empty());
    }
}
