#include "supervisor/approval/questions/question_queue.hpp"

#include <algorithm>

#include "base/test_switch.hpp"

namespace callgate::approval {

namespace {

constexpr std::int64_t minute_ns = 60'000'000'000;
constexpr std::int64_t max_rest_ns = 10 * minute_ns;
/// A call that a signal interrupted usually comes again at once, so its question waits for it.
constexpr std::int64_t desertion_ns = 150'000'000;
constexpr std::size_t looks_per_tick = 256;
constexpr std::size_t max_denied_once = 1024;

/// An approver chooses the directory and the operations of a tree. They are no wider than what the
/// question offers, whatever it sends.
bool offers_width(const Question& question, const Reply& reply) {
    if (!check_enabled("offered-width")) return true;
    if (reply.scope != Scope::tree) return reply.tree.empty() && !reply.reads_and_writes;
    return (reply.tree.empty() || question.offers_tree(reply.tree)) &&
           (!reply.reads_and_writes || question.offers_writing());
}

Approval approval_of(const Question& question, const Reply& reply, std::uint64_t grant) {
    return {.key = question.key,
            .action = reply.action,
            .by = reply.by,
            .question = question.id,
            .grant = grant,
            .reason = reply.reason};
}

}  // namespace

void QuestionQueue::open(bool reachable) {
    ParkedCalls denied;
    {
        const std::lock_guard guard(lock_);
        reachable_ = reachable;
        if (reachable) return;
        Reply reply;
        reply.by = rules::DecidedBy::failure;
        reply.reason = "nobody is there to answer any more";
        while (!questions_.empty()) settle(questions_.begin(), reply, denied);
    }
    if (!denied.empty()) owner_.resume(std::move(denied));
    owner_.questions_changed();
}

std::optional<QuestionQueue::Granted> QuestionQueue::granted(const Subject& asked) {
    const std::lock_guard guard(lock_);
    const Grant* const grant = grants_.find(asked);
    if (grant == nullptr) return std::nullopt;
    return Granted{.action = grant->action,
                   .grant = grant->number,
                   .question = grant->question,
                   .tree = grant->scope == Scope::tree ? grant->subject.object.name : ""};
}

bool QuestionQueue::while_granted(const Subject& asked, rules::Action action,
                                  const std::function<void(const Granted&)>& record) const {
    const std::lock_guard guard(lock_);
    const Grant* const grant = grants_.deciding(asked);
    if (grant == nullptr || grant->action != action) return false;
    record({grant->action, grant->number, grant->question});
    return true;
}

bool QuestionQueue::gained_by_move(std::string_view old_path, std::string_view new_path) const {
    const std::lock_guard guard(lock_);
    return grants_.gained_by_move(old_path, new_path);
}

QuestionQueue::Questions::iterator QuestionQueue::find(std::string_view key) {
    return std::ranges::find_if(questions_, [key](const Asked& one) { return one.question->key == key; });
}

QuestionQueue::Admission QuestionQueue::park(Asked& asked, ParkedCall& call) {
    if (parked_ == settings_.calls) return Admission::too_many;
    asked.calls.push_back(std::move(call));
    asked.deserted_ns = 0;
    ++asked.count;
    ++parked_;
    return Admission::parked;
}

/// The lock is not held while the owner looks; a call of `open` meanwhile knows better.
void QuestionQueue::find_out_reachability() {
    {
        const std::lock_guard guard(lock_);
        if (reachable_) return;
    }
    const bool found = owner_.find_approver();
    const std::lock_guard guard(lock_);
    if (!reachable_) reachable_ = found;
}

bool QuestionQueue::is_reachable() {
    find_out_reachability();
    const std::lock_guard guard(lock_);
    return reachable_.value_or(false);
}

QuestionQueue::Admission QuestionQueue::join(std::string_view key, ParkedCall& call) {
    find_out_reachability();
    {
        const std::lock_guard guard(lock_);
        if (!reachable_.value_or(false)) return Admission::nobody;
        const auto known = find(key);
        if (known == questions_.end()) return Admission::unknown;
        if (const Admission how = park(*known, call); how != Admission::parked) return how;
    }
    owner_.questions_changed();
    return Admission::parked;
}

bool QuestionQueue::too_often(const std::string& rule, std::int64_t now) {
    std::vector<std::int64_t>& times = recent_[rule];
    std::erase_if(times, [now](std::int64_t time) { return now - time >= minute_ns; });
    if (times.size() >= settings_.new_per_minute) return true;
    times.push_back(now);
    return false;
}

QuestionQueue::Admission QuestionQueue::ask(Question question, ParkedCall& call) {
    {
        const std::lock_guard guard(lock_);
        if (!reachable_.value_or(false)) return Admission::nobody;
        if (const auto known = find(question.key); known != questions_.end()) {
            if (const Admission how = park(*known, call); how != Admission::parked) return how;
        } else {
            if (grants_.denies_all()) return Admission::denied_all;
            if (questions_.size() == settings_.open_questions || parked_ == settings_.calls)
                return Admission::too_many;
            const std::int64_t now = owner_.now_ns();
            if (too_often(question.rule, now)) return Admission::too_often;
            question.id = ++last_id_;
            question.again = denied_once_.contains(question.key);
            if (!log_.shown(question)) return Admission::unrecorded;
            Asked& asked = questions_.emplace_back();
            asked.question = std::make_shared<const Question>(std::move(question));
            asked.asked_ns = now;
            asked.deadline_ns = now + settings_.timeout_ns;
            static_cast<void>(park(asked, call));
        }
    }
    owner_.questions_changed();
    return Admission::parked;
}

std::vector<QuestionQueue::Open> QuestionQueue::questions() const {
    const std::lock_guard guard(lock_);
    std::vector<Open> all;
    all.reserve(questions_.size());
    for (const Asked& one : questions_)
        all.push_back({one.question, one.calls.size(), one.count, one.deadline_ns});
    return all;
}

void QuestionQueue::give(ParkedCalls& from, ParkedCalls::iterator call, const Approval& approval,
                         ParkedCalls& out) {
    call->approvals.push_back(approval);
    out.splice(out.end(), from, call);
    --parked_;
}

/// An answered question leaves room for another: a person who answers is not flooded.
void QuestionQueue::note_answer(const Question& question, const Reply& reply) {
    if (reply.by == rules::DecidedBy::timeout || reply.by == rules::DecidedBy::failure) return;
    if (auto times = recent_.find(question.rule); times != recent_.end() && !times->second.empty())
        times->second.erase(times->second.begin());
    if (reply.action != rules::Action::deny || reply.scope != Scope::once) return;
    if (denied_once_.size() >= max_denied_once) denied_once_.clear();
    denied_once_.insert(question.key);
}

/// Records the answer first. False: it could not be recorded, so it denies.
bool QuestionQueue::settle(Questions::iterator asked, const Reply& wanted, ParkedCalls& out) {
    Reply reply = wanted;
    const Question& question = *asked->question;
    std::uint64_t grant = 0;
    if (reply.scope != Scope::once && reply.action != rules::Action::kill) {
        grant = grants_.add(question, reply);
        if (grant == 0) reply.scope = Scope::once;
    }
    const bool recorded =
        log_.answered(question, {reply, grant, owner_.now_ns() - asked->asked_ns, asked->count});
    if (!recorded) {
        if (grant != 0) static_cast<void>(grants_.revoke(grant));
        grant = 0;
        reply.action = rules::Action::deny;
        reply.scope = Scope::once;
        reply.by = rules::DecidedBy::failure;
        reply.reason = "the answer could not be recorded";
    }
    note_answer(question, reply);
    const Approval approval = approval_of(question, reply, grant);
    asked->next_look = asked->calls.end();
    if (reply.action == rules::Action::allow && reply.scope == Scope::once) {
        if (!asked->calls.empty()) give(asked->calls, asked->calls.begin(), approval, out);
    } else {
        while (!asked->calls.empty()) give(asked->calls, asked->calls.begin(), approval, out);
    }
    if (asked->calls.empty()) questions_.erase(asked);
    return recorded;
}

QuestionQueue::Applied QuestionQueue::answer(std::uint64_t id, std::string_view key, Reply reply) {
    ParkedCalls out;
    Applied applied = Applied::yes;
    bool kills = false;
    {
        const std::lock_guard guard(lock_);
        const auto asked =
            std::ranges::find_if(questions_, [id](const Asked& one) { return one.question->id == id; });
        if (asked == questions_.end()) return Applied::unknown_question;
        if (reply.action == rules::Action::ask) reply.action = rules::Action::deny;
        if (asked->question->key != key) applied = Applied::other_question;
        const bool offered = reply.scope == Scope::run ? reply.action != rules::Action::allow
                                                       : asked->question->offers(reply.scope) &&
                                                             offers_width(*asked->question, reply);
        if (applied == Applied::yes && !offered) applied = Applied::not_offered;
        if (applied != Applied::yes) {
            reply.action = rules::Action::deny;
            reply.scope = Scope::once;
            reply.by = rules::DecidedBy::failure;
            reply.reason = applied == Applied::other_question ? "the answer was to another question"
                                                              : "the answer was wider than what was offered";
        }
        kills = reply.action == rules::Action::kill;
        // An approver is there: the questions behind this one have their whole time from now on.
        const std::int64_t deadline = owner_.now_ns() + settings_.timeout_ns;
        for (Asked& other : questions_) other.deadline_ns = std::max(other.deadline_ns, deadline);
        if (!settle(asked, reply, out)) applied = Applied::unrecorded;
        if (grants_.denies_all()) {
            reply.scope = Scope::once;
            reply.reason = "all further questions of this run are denied";
            while (!questions_.empty()) settle(questions_.begin(), reply, out);
        }
    }
    if (kills && applied == Applied::yes) owner_.kill_run();
    if (!out.empty()) owner_.resume(std::move(out));
    owner_.questions_changed();
    return applied;
}

void QuestionQueue::rest(std::uint64_t id) {
    const std::lock_guard guard(lock_);
    for (Asked& one : questions_) {
        if (one.question->id != id || one.rested) continue;
        one.rested = true;
        one.deadline_ns = std::max(one.deadline_ns, owner_.now_ns() + max_rest_ns);
    }
}

std::vector<Grant> QuestionQueue::grants() const {
    const std::lock_guard guard(lock_);
    return grants_.all();
}

QuestionQueue::Applied QuestionQueue::revoke(std::uint64_t grant, const audit::Answerer& who) {
    const std::lock_guard guard(lock_);
    if (!grants_.revoke(grant)) return Applied::unknown_question;
    return log_.revoked(grant, who) ? Applied::yes : Applied::unrecorded;
}

/// Looks at some of the callers at each tick, at all in turn. A caller that is gone is dropped: an answer
/// would not reach it.
void QuestionQueue::look_at_callers(Asked& asked, std::size_t max_looks) {
    for (std::size_t looked = 0; looked < max_looks && !asked.calls.empty(); ++looked) {
        if (asked.next_look == asked.calls.end()) {
            if (looked > 0) return;
            asked.next_look = asked.calls.begin();
        }
        const auto one = asked.next_look++;
        if (one->waiter) {
            if (one->waiter->waiting()) continue;
        } else if (one->call.waiting()) {
            if (!owner_.has_signal(one->call.notification().thread)) continue;
            static_cast<void>(one->call.interrupt());
            if (asked.calls.size() == 1) asked.deserted_ns = owner_.now_ns();
        }
        asked.calls.erase(one);
        --parked_;
    }
}

bool QuestionQueue::tick() {
    ParkedCalls denied;
    bool changed = false;
    bool more = false;
    {
        const std::lock_guard guard(lock_);
        const std::int64_t now = owner_.now_ns();
        const std::size_t max_looks = looks_per_tick / std::max<std::size_t>(questions_.size(), 1);
        Reply late;
        late.by = rules::DecidedBy::timeout;
        for (auto next = questions_.begin(); next != questions_.end();) {
            const auto asked = next++;
            const std::size_t before = asked->calls.size();
            look_at_callers(*asked, max_looks);
            changed = changed || asked->calls.size() != before;
            if (asked->calls.empty() &&
                (asked->deserted_ns == 0 || now - asked->deserted_ns > desertion_ns)) {
                // No caller waits, so it is withdrawn whether or not that can be recorded.
                static_cast<void>(log_.withdrawn(*asked->question, "nobody waits for it any more"));
                questions_.erase(asked);
                changed = true;
            } else if (now >= asked->deadline_ns) {
                settle(asked, late, denied);
                changed = true;
            }
        }
        more = !questions_.empty();
    }
    if (!denied.empty()) owner_.resume(std::move(denied));
    if (changed) owner_.questions_changed();
    return more;
}

}  // namespace callgate::approval
