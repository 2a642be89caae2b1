#include "supervisor/approval/terminal/prompt_engine.hpp"

#include <utility>

#include "supervisor/approval/terminal/proposal.hpp"

namespace callgate::approval {

namespace {

PromptStep answer(rules::Action action, Scope scope = Scope::once) {
    PromptStep step;
    step.kind = PromptStep::Kind::answer;
    step.action = action;
    step.scope = scope;
    return step;
}

PromptStep redraw() {
    PromptStep step;
    step.kind = PromptStep::Kind::redraw;
    return step;
}

}  // namespace

void PromptEngine::open(QuestionView question) {
    close();
    question_ = std::move(question);
}

void PromptEngine::close() {
    question_.reset();
    width_ = {};
    typed_.clear();
    drawn_ = began_ = mark_due_ = detailed_ = details_wanted_ = false;
}

bool PromptEngine::shows(std::string_view run, std::uint64_t id) const {
    return question_ && question_->id == id && question_->run == run;
}

std::string PromptEngine::with_newlines(std::string_view text) const {
    if (input_ != Input::keys) return std::string(text);
    std::string lines;
    for (const char one : text) {
        if (one == '\n') lines += '\r';
        lines += one;
    }
    return lines;
}

std::string PromptEngine::draw(Look look) {
    look.width = width_;
    look.details = details_wanted_ || detailed_;
    plain_ = look.plain;
    const Drawn frame = approval::draw(*question_, look);
    detailed_ = (look.details || !frame.cut) && !frame.too_tall;
    drawn_ = false;
    return with_newlines(frame.text);
}

void PromptEngine::drawn(std::int64_t now_ns) {
    keys_.begin(now_ns);
    guarded_until_ns_ = input_ == Input::stream ? now_ns : now_ns + PromptKeys::guard_ns;
    drawn_ = mark_due_ = true;
}

std::optional<std::int64_t> PromptEngine::due_ns() const {
    if (!drawn_) return std::nullopt;
    std::optional<std::int64_t> due;
    if (mark_due_) due = guarded_until_ns_;
    if (keys_.waits_for_escape() && (!due || keys_.escape_due_ns() < *due)) due = keys_.escape_due_ns();
    return due;
}

PromptStep PromptEngine::tick(std::int64_t now_ns) {
    PromptStep step;
    if (!drawn_) return step;
    if (keys_.escaped(now_ns)) return on_line("");
    if (!mark_due_ || now_ns < guarded_until_ns_) return step;
    mark_due_ = false;
    step.kind = PromptStep::Kind::opened;
    step.text = input_ != Input::lines ? "> " : plain_ ? "\r> " : "\r\x1b[K> ";
    return step;
}

PromptStep PromptEngine::feed(std::string_view bytes, std::int64_t now_ns) {
    return input_ == Input::keys ? feed_keys(bytes, now_ns) : feed_lines(bytes, now_ns);
}

bool PromptEngine::begin_answer() { return !std::exchange(began_, true); }

PromptStep PromptEngine::feed_keys(std::string_view bytes, std::int64_t now_ns) {
    PromptStep step;
    const bool touched = keys_.touched();
    const std::vector<std::string> lines = keys_.feed(bytes, now_ns, step.text);
    if (keys_.take_suspend()) {
        step.kind = PromptStep::Kind::suspend;
        return step;
    }
    if (!drawn_) return {};
    const bool began = !touched && keys_.touched() && begin_answer();
    if (!lines.empty()) {  // the first line only: what follows was not typed at the next prompt
        std::string echo = std::move(step.text);
        step = on_line(lines.front());
        step.text.insert(0, echo);
    }
    step.began = began;
    return step;
}

PromptStep PromptEngine::feed_lines(std::string_view bytes, std::int64_t now_ns) {
    PromptStep step;
    if (!drawn_ || now_ns < guarded_until_ns_) {
        static_cast<void>(lines_.take(bytes));  // a paste may begin or end in it
        if (drawn_) step.text = "(typed too early: ignored)\n";
        return step;
    }
    typed_ += bytes;
    bool began = false;
    for (std::size_t end = typed_.find('\n'); end != std::string::npos; end = typed_.find('\n')) {
        const auto line = lines_.take(std::string_view(typed_).substr(0, end));
        typed_.erase(0, end + 1);
        began = (line && begin_answer()) || began;
        std::string before = std::move(step.text);
        step = line ? on_line(*line) : reply("(pasted: ignored)\n");
        step.text.insert(0, before);
        if (step.kind != PromptStep::Kind::wait || input_ == Input::lines) break;
    }
    // A terminal gives one line at a time; no prompt takes what came behind the answer to another.
    if (step.kind != PromptStep::Kind::wait || input_ == Input::lines) typed_.clear();
    step.began = began;
    return step;
}

PromptStep PromptEngine::end_of_input() const { return drawn_ ? answer(rules::Action::deny) : PromptStep{}; }

/// The mark stands behind the text, so it is not due any more.
PromptStep PromptEngine::reply(const std::string& text) {
    PromptStep step;
    mark_due_ = false;
    step.text = with_newlines(text) + "> ";
    return step;
}

void PromptEngine::widen() {
    std::string& tree = width_.tree;
    if (tree == question_->widest) return tree.clear();
    if (tree.empty()) tree = question_->tree;
    tree.resize(tree.rfind('/'));
}

PromptStep PromptEngine::on_line(std::string_view line) {
    using rules::Action;
    switch (understand(line, *question_, detailed_)) {
        case Typed::deny:
            return answer(Action::deny);
        case Typed::once:
            return answer(Action::allow);
        case Typed::object:
            return answer(Action::allow, Scope::object);
        case Typed::tree: {
            PromptStep step = answer(Action::allow, Scope::tree);
            step.width = width_;
            return step;
        }
        case Typed::wider:
            widen();
            return redraw();
        case Typed::writing:
            width_.reads_and_writes = !width_.reads_and_writes;
            return redraw();
        case Typed::deny_run:
            return answer(Action::deny, question_->offers(Scope::object) ? Scope::object : Scope::once);
        case Typed::deny_all:
            return answer(Action::deny, Scope::run);
        case Typed::kill:
            return answer(Action::kill);
        case Typed::details: {
            details_wanted_ = true;
            return redraw();
        }
        case Typed::propose:
            if (const auto name = propose(config_, *question_))
                return reply("proposed as " + *name + "; the question still waits\n(callgate rules accept " +
                             *name + " adds it to your rules)\n");
            else
                return reply("no rule can be proposed: " + name.error().message() + "\n");
        case Typed::again:
            return reply("not understood; Enter denies\n");
    }
    return {};
}

}  // namespace callgate::approval
