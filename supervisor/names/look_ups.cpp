#include "supervisor/names/look_ups.hpp"

#include <signal.h>

#include <algorithm>
#include <boost/asio/post.hpp>
#include <cerrno>

#include "base/clock.hpp"
#include "base/test_switch.hpp"
#include "rules/model/address.hpp"
#include "supervisor/approval/questions/question_queue.hpp"
#include "supervisor/decide/ask.hpp"
#include "supervisor/decide/observe.hpp"
#include "supervisor/names/public_suffix.hpp"

namespace callgate::names {

namespace {

using namespace std::chrono_literals;
using rules::Action;
using rules::Operation;

/// Queries of several types that belong to one look-up come within this time.
constexpr auto one_look_up = 1s;
constexpr std::size_t max_recent = 4096, max_once = 4096;

bool below(std::string_view name, std::string_view zone) {
    return name.size() > zone.size() && name.ends_with(zone) && name[name.size() - zone.size() - 1] == '.';
}

/// "4.3.2.1.in-addr.arpa", "….ip6.arpa"
std::optional<rules::IpAddress> address_of_reverse(std::string_view name) {
    const bool six = name.ends_with(".ip6.arpa");
    if (!six && !name.ends_with(".in-addr.arpa")) return std::nullopt;
    name.remove_suffix(six ? 9 : 13);
    std::vector<std::string> labels;
    for (std::size_t begin = 0; begin <= name.size();) {
        const std::size_t end = std::min(name.find('.', begin), name.size());
        labels.emplace_back(name.substr(begin, end - begin));
        begin = end + 1;
    }
    std::ranges::reverse(labels);
    std::string text;
    for (std::size_t index = 0; index < labels.size(); ++index) {
        if (index != 0 && (!six || index % 4 == 0)) text += six ? ':' : '.';
        text += labels[index];
    }
    const auto parsed = rules::parse_address(text);
    if (!parsed) return std::nullopt;
    return *parsed;
}

/// The `*.suffix` by which the rule that allows a name names it; "" if it does so literally, or not at all.
std::string suffix_of(const rules::Verdict& verdict, const std::string& name) {
    std::string suffix;
    if (verdict.rule == nullptr) return suffix;
    for (const rules::HostPattern& host : verdict.rule->when.host) {
        if (!host.matches(name)) continue;
        if (!host.suffix) return "";
        if (suffix.empty()) suffix = host.text;
    }
    return suffix;
}

}  // namespace

/// A question about a look-up, as the queue holds it.
class LookUps::Asked final : public approval::Waiter {
public:
    Asked(LookUps& owner, Key key, std::uint64_t number)
        : owner_(owner), alive_(owner.alive_), key_(std::move(key)), number_(number) {}
    Asked(const Asked&) = delete;
    Asked& operator=(const Asked&) = delete;
    /// The queue drops it with its answer, or when the question is withdrawn.
    ~Asked() override {
        if (alive_.expired()) return;
        boost::asio::post(owner_.loop_, [&owner = owner_, alive = alive_, key = key_, number = number_] {
            if (!alive.expired()) owner.withdrawn(key, number);
        });
    }
    /// A program that gave up may ask again: the answer then counts.
    [[nodiscard]] bool waiting() const override { return ::kill(std::get<0>(key_), 0) == 0; }
    void answered(const approval::Approval& approval) override {
        boost::asio::post(owner_.loop_, [&owner = owner_, alive = alive_, key = key_, approval] {
            if (!alive.expired()) owner.answered(key, approval);
        });
    }

private:
    LookUps& owner_;
    std::weak_ptr<int> alive_;
    Key key_;
    std::uint64_t number_;
};

LookUps::LookUps(boost::asio::io_context& loop, calls::DecideNeeds& needs, Bindings& bindings)
    : loop_(loop), needs_(needs), bindings_(bindings), upstream_(loop) {}

LookUps::~LookUps() = default;

LookUps::Key LookUps::key_of(const Waiting& one) {
    return {one.asker.process, one.asker.start_time, one.query.name};
}

const rules::RuleSet& LookUps::user_rules() const {
    return needs_.observation != nullptr ? needs_.observation->basis().rules : needs_.enforced.rules;
}

const calls::DecideNeeds& LookUps::judges_of(const Asker& asker) const {
    return asker.judges != nullptr ? *asker.judges : needs_;
}

rules::Verdict LookUps::evaluate(const std::string& name, const Asker& asker) const {
    const rules::RuleSet& judging = asker.judges != nullptr ? asker.judges->enforced.rules : user_rules();
    rules::Verdict verdict = judging.evaluate({Operation::connect,
                                               rules::HostName{name},
                                               asker.program,
                                               {},
                                               asker.party.value_or(rules::Party::tools)});
    if (verdict.action != Action::allow) verdict.error = ENOENT;
    return verdict;
}

bool LookUps::take(Bytes message, const Asker& asker, std::size_t limit, Reply reply) {
    auto query = parse_query(message);
    if (!query) {
        auto refused = malformed(message);
        if (refused) reply(std::move(*refused));
        return refused.has_value();
    }
    constexpr std::uint16_t internet = 1;
    Waiting one{std::move(*query), asker, limit, std::move(reply)};
    if (one.query.operation != 0 || one.query.class_number != internet || one.query.type == type_any)
        return one.reply(answer(one.query, Code::not_implemented)), true;
    if (!answer_here(one)) decide(std::move(one));
    return true;
}

/// The user's own names and addresses; they are never asked outside.
bool LookUps::answer_here(const Waiting& one) {
    const std::string& name = one.query.name;
    if (name.empty()) return one.reply(answer(one.query, Code::ok)), true;
    if (below(name, "in-addr.arpa") || below(name, "ip6.arpa")) return answer_address_query(one), true;
    hosts_.refresh();  // names of hosts that rules name are bound by Service::names_of
    const auto* const addresses = hosts_.find(name);
    if (addresses == nullptr) return false;
    std::vector<rules::IpAddress> wanted;
    for (const rules::IpAddress& address : *addresses) {
        if (one.query.type == (address.v6 ? type_aaaa : type_a)) wanted.push_back(address);
    }
    one.reply(answer(one.query, Code::ok, wanted));
    return true;
}

void LookUps::answer_address_query(const Waiting& one) {
    const auto address = address_of_reverse(one.query.name);
    const Bindings::Names names = address ? bindings_.names_of(*address) : nullptr;
    if (one.query.type != type_ptr || !names) return one.reply(answer(one.query, Code::no_such_name));
    one.reply(name_answer(one.query, names->front()));
}

void LookUps::decide(Waiting one) {
    const Key key = key_of(one);
    const auto now = Clock::now();
    if (const auto waiting = asking_.find(key); waiting != asking_.end()) {
        std::vector<Waiting>& queries = waiting->second.queries;
        if (queries.size() >= max_waiting) return one.reply(answer(one.query, Code::failed));
        queries.push_back(std::move(one));
        return;
    }
    if (const auto known = recent_.find(key); known != recent_.end() && known->second.until > now &&
                                              known->second.types.insert(one.query.type).second) {
        if (!known->second.allowed) return one.reply(answer(one.query, Code::no_such_name));
        return resolve(std::move(one));
    }
    Decided decided = judge(one);
    if (decided.verdict.action == Action::ask && needs_.observation == nullptr)
        return ask(std::move(one), decided.verdict);
    conclude(one, decided);
}

void LookUps::deny_here(Decided& decided, std::string reason) {
    decided.verdict.action = Action::deny;
    decided.verdict.decided_by = rules::DecidedBy::failure;
    decided.verdict.rule = nullptr;
    decided.verdict.error = ENOENT;
    decided.reason = std::move(reason);
    decided.granted.reset();
}

/// The names below a suffix can carry data to whoever serves them.
void LookUps::count_name(Decided& decided, const std::string& name, const std::string& suffix) {
    if (suffix.empty() || decided.verdict.action != Action::allow) return;
    auto& names = names_of_suffix_[suffix];
    if (names.contains(name)) return;
    if (names.size() >= max_names_of_suffix && check_enabled("names-of-suffix"))
        return deny_here(decided, "more than " + std::to_string(max_names_of_suffix) +
                                      " names below one suffix in this run");
    names.insert(name);
    if (names.size() == many_names_of_suffix)
        decided.reason = std::to_string(many_names_of_suffix) + " names below " + suffix +
                         " were looked up in this run: names can carry data out";
}

LookUps::Decided LookUps::judge(const Waiting& one) {
    const std::string& name = one.query.name;
    Decided decided{.verdict = evaluate(name, one.asker)};
    if (decided.verdict.action >= Action::deny) return decided;
    if (one.asker.over) {
        deny_here(decided, "the nested run that asked has ended");
        return decided;
    }
    if (!one.query.host_name || name.size() > 253) {
        deny_here(decided, "not the name of a host");
        return decided;
    }
    if (local_name(name) && !named_by(decided.verdict.rule, name) && check_enabled("local-names")) {
        deny_here(decided, "a name of the local network, which no rule names");
        return decided;
    }
    if (decided.verdict.action != Action::ask) {
        count_name(decided, name, suffix_of(decided.verdict, name));
        return decided;
    }
    if (const auto earlier = answered(one.asker, {name})) {
        decided.verdict.action = earlier->action;
        decided.verdict.decided_by = earlier->by;
        decided.question = earlier->question;
        return decided;
    }
    approval::QuestionQueue* const questions = judges_of(one.asker).questions;
    if (questions == nullptr) {
        decided.reason = audit::unasked::nobody;
        if (needs_.observation == nullptr) decided.verdict.action = Action::deny;
        return decided;
    }
    approval::Subject asked;
    asked.operations = Operation::connect;
    asked.object = approval::AskedObject(rules::HostName{name});
    asked.program = one.asker.program;
    asked.party = one.asker.party;
    asked.any_program = calls::asks_for_all(asked.program, one.asker.process);
    if (const auto granted = questions->granted(asked)) {
        decided.verdict.action = granted->action;
        decided.verdict.decided_by = granted->by;
        decided.granted = std::move(asked);
        count_name(decided, name, granted->tree);
    }
    return decided;
}

/// The look-up waits, with all queries for the same name by the same process.
void LookUps::ask(Waiting one, rules::Verdict verdict) {
    const Key key = key_of(one);
    approval::Question question;
    question.subject.operations = Operation::connect;
    question.subject.object = approval::AskedObject(rules::HostName{one.query.name});
    question.subject.program = one.asker.program;
    question.subject.party = one.asker.party;
    question.subject.any_program = calls::asks_for_all(one.asker.program, one.asker.process);
    question.key = approval::key_of(question.subject, verdict.rule_name(), {});
    question.operation = Operation::connect;
    question.rule = verdict.rule_name();
    question.reason = calls::reason_of(verdict);
    question.home = needs_.home;
    if (const std::size_t dot = one.query.name.find('.'); dot != std::string::npos)
        question.own_zone = !public_suffix(std::string_view(one.query.name).substr(dot + 1));
    question.process = one.asker.process;
    question.start_time = one.asker.start_time;
    calls::describe_process(needs_, question, one.asker.process, one.asker.parent);
    const std::uint64_t number = ++last_asking_;
    approval::ParkedCall parked{{}, monotonic_ns(), {}, std::make_shared<Asked>(*this, key, number)};
    using Admission = approval::QuestionQueue::Admission;
    Admission how = needs_.questions->join(question.key, parked);
    if (how == Admission::unknown) how = needs_.questions->ask(std::move(question), parked);
    if (how == Admission::parked) {
        Asking& asking = asking_[key];
        asking.number = number;
        asking.queries.push_back(std::move(one));
        return;
    }
    Decided decided{.verdict = verdict, .reason = std::string(calls::why_not(how))};
    decided.verdict.action = Action::deny;
    if (how != Admission::nobody) decided.verdict.decided_by = rules::DecidedBy::failure;
    conclude(one, decided);
}

void LookUps::answered(const Key& key, const approval::Approval& approval) {
    auto asking = asking_.extract(key);
    if (asking.empty()) return;
    if (approval.grant == 0 && approval.by != rules::DecidedBy::timeout &&
        approval.by != rules::DecidedBy::failure) {
        const std::lock_guard guard(lock_);
        if (once_.size() >= max_once) once_.clear();
        once_[key] = {approval.action, approval.by, approval.question};
    }
    bool first = true;
    for (Waiting& one : asking.mapped().queries) {
        if (!first) {
            decide(std::move(one));
            continue;
        }
        first = false;
        // The rules are the same for the whole run, so the verdict has not changed.
        Decided decided{.verdict = evaluate(one.query.name, one.asker),
                        .reason = approval.reason,
                        .question = approval.question,
                        .grant = approval.grant};
        decided.verdict.action = approval.action;
        decided.verdict.decided_by = approval.by;
        conclude(one, decided);
    }
}

/// The process has ended, but another may hold its socket.
void LookUps::withdrawn(const Key& key, std::uint64_t number) {
    const auto found = asking_.find(key);
    if (found == asking_.end() || found->second.number != number) return;
    const Asking asking = std::move(asking_.extract(found).mapped());
    for (const Waiting& one : asking.queries) one.reply(answer(one.query, Code::failed));
}

bool LookUps::named(std::string_view name) const {
    return std::ranges::any_of(needs_.enforced.rules.rules(),
                               [name](const rules::Rule& rule) { return named_by(&rule, name); });
}

std::optional<OnceAnswered> LookUps::answered(const Asker& asker,
                                              const std::vector<std::string>& names) const {
    const std::lock_guard guard(lock_);
    for (const std::string& name : names) {
        const auto found = once_.find(Key{asker.process, asker.start_time, name});
        if (found != once_.end()) return found->second;
    }
    return std::nullopt;
}

/// Records the decision, and only then lets it take effect.
void LookUps::conclude(const Waiting& one, const Decided& decided) {
    const bool observed = needs_.observation != nullptr;
    const bool recorded = record(one, decided);
    const bool allowed =
        recorded && (observed || decided.verdict.action == Action::allow || !check_enabled("denied-look-up"));
    if (recent_.size() >= max_recent) recent_.clear();
    recent_[key_of(one)] = {allowed, Clock::now() + one_look_up, {one.query.type}};
    const auto& kill_tree = judges_of(one.asker).kill_tree;
    if (recorded && !observed && decided.verdict.action == Action::kill && kill_tree) kill_tree();
    if (!allowed) return one.reply(answer(one.query, Code::no_such_name));
    resolve(one);
}

bool LookUps::record(const Waiting& one, const Decided& decided) {
    if (!decided.granted) return write(one, decided, decided.question, decided.grant);
    bool written = false;
    const auto by_grant = [&](const approval::QuestionQueue::Granted& now) {
        written = write(one, decided, now.question, now.grant);
    };
    if (needs_.questions->while_granted(*decided.granted, decided.verdict.action, by_grant)) return written;
    Decided revoked{.verdict = decided.verdict,
                    .reason = "the answer that it went by was taken back meanwhile"};
    revoked.verdict.action = Action::deny;
    revoked.verdict.decided_by = rules::DecidedBy::failure;
    static_cast<void>(write(one, revoked, 0, 0));
    return false;
}

bool LookUps::write(const Waiting& one, const Decided& decided, std::uint64_t question, std::uint64_t grant) {
    const bool allowed = decided.verdict.action == Action::allow;
    audit::Decision decision;
    decision.call = "lookup";
    decision.caller = {.pid = one.asker.process,
                       .parent = one.asker.parent,
                       .start_time = one.asker.start_time,
                       .executable = one.asker.program,
                       .uid = needs_.uid,
                       .party = one.asker.party};
    if (one.asker.judges != nullptr) decision.caller.nested = one.asker.judges->nested;
    decision.operation = Operation::connect;
    decision.operations = Operation::connect;
    decision.object = rules::HostName{one.query.name};
    decision.verdict = decided.verdict;
    decision.reason = decided.reason;
    decision.mechanism = allowed || needs_.observation != nullptr ? audit::Mechanism::on_behalf
                         : decided.verdict.action == Action::kill ? audit::Mechanism::kill
                                                                  : audit::Mechanism::error;
    decision.question = question;
    decision.grant = grant;
    if (needs_.log != nullptr) {
        const auto written = needs_.log->record(decision);
        if (!written) {
            int none = 0;
            needs_.log_error.compare_exchange_strong(none, written.error().value());
            return !check_enabled("record-first");
        }
        if ((needs_.log->sync_due() || !allowed) && needs_.sync_log) needs_.sync_log();
    }
    (one.asker.judges != nullptr ? one.asker.judges->sink : needs_.sink).note(decision);
    return true;
}

}  // namespace callgate::names
