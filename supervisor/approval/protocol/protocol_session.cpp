#include "supervisor/approval/protocol/protocol_session.hpp"

#include <sodium/utils.h>

#include <algorithm>

namespace callgate::approval {

namespace {

bool same_token(std::string_view given, std::string_view wanted) {
    return given.size() == wanted.size() && ::sodium_memcmp(given.data(), wanted.data(), wanted.size()) == 0;
}

}  // namespace

ProtocolSession::ProtocolSession(QuestionQueue& questions, Settings settings, SessionOwner& owner)
    : questions_(questions), settings_(std::move(settings)), owner_(owner) {
    authenticated_ = settings_.token.empty();
    output_ = hello_message(settings_.run, !authenticated_);
}

bool ProtocolSession::receive(std::string_view bytes) {
    while (!bytes.empty()) {
        const std::size_t end = bytes.find('\n');
        const std::string_view piece = bytes.substr(0, end);
        if (input_.size() + piece.size() > max_message) {
            output_ += error_message("the line is too long");
            return false;
        }
        input_ += piece;
        if (end == std::string_view::npos) return true;
        bytes.remove_prefix(end + 1);
        const std::string line = std::exchange(input_, {});
        if (!handle(line)) return false;
    }
    return true;
}

bool ProtocolSession::handle(std::string_view line) {
    const Message message = parse_message(line);
    if (!authenticated_) {
        const auto* auth = std::get_if<AuthMessage>(&message);
        if (auth == nullptr || !same_token(auth->token, settings_.token)) {
            output_ += error_message("wrong token");
            return false;
        }
        authenticated_ = true;
        owner_.approver_arrived();
        show(questions_.questions());
        return true;
    }
    if (const auto* decision = std::get_if<DecisionMessage>(&message)) {
        decide(*decision);
    } else if (const auto* rest = std::get_if<RestMessage>(&message)) {
        questions_.rest(rest->id);
    } else if (std::holds_alternative<StatusMessage>(message)) {
        output_ += owner_.status_of_run();
    } else if (std::holds_alternative<GrantsMessage>(message)) {
        output_ += grants_message(questions_.grants());
    } else if (const auto* revoke = std::get_if<RevokeMessage>(&message)) {
        const auto applied = questions_.revoke(revoke->grant, settings_.who);
        output_ +=
            ack_message(revoke->grant, applied == QuestionQueue::Applied::yes,
                        applied == QuestionQueue::Applied::unknown_question ? "no such grant" : why(applied));
    } else if (std::holds_alternative<StopMessage>(message)) {
        output_ += ack_message(0, true, "");
        owner_.stop_run();
    } else if (const auto* nonsense = std::get_if<Nonsense>(&message)) {
        output_ += ack_message(0, false, nonsense->why);
    }
    return true;
}

/// An acknowledgement comes before the message that the question is gone.
void ProtocolSession::decide(const DecisionMessage& decision) {
    Reply reply = decision.reply;
    reply.by = settings_.by;
    reply.who = settings_.who;
    if (!decision.wrong.empty()) {
        reply.action = rules::Action::deny;
        reply.scope = Scope::once;
        reply.by = rules::DecidedBy::failure;
        reply.reason = "the answer was not understood: " + decision.wrong;
    }
    const auto applied = questions_.answer(decision.id, decision.key, reply);
    const bool good = applied == QuestionQueue::Applied::yes && decision.wrong.empty();
    const auto questions = questions_.questions();
    if (std::ranges::none_of(questions, [&](const auto& one) { return one.question->id == decision.id; }))
        shown_.erase(decision.id);
    output_ += ack_message(decision.id, good,
                           applied != QuestionQueue::Applied::yes ? why(applied)
                           : decision.wrong.empty()               ? ""
                                                                  : decision.wrong + ": denied");
}

void ProtocolSession::show(const std::vector<QuestionQueue::Open>& questions) {
    if (!authenticated_) return;
    std::erase_if(shown_, [&](const auto& shown) {
        const bool open = std::ranges::any_of(
            questions, [&](const QuestionQueue::Open& one) { return one.question->id == shown.first; });
        if (!open) output_ += withdrawn_message(shown.first, "it is not asked any more");
        return !open;
    });
    for (const QuestionQueue::Open& one : questions) {
        const Counts counts{one.count, one.callers};
        const auto [known, is_new] = shown_.try_emplace(one.question->id, counts);
        if (is_new) {
            output_ += ask_message(one, owner_.now_ns());
        } else if (known->second != counts) {
            known->second = counts;
            output_ += count_message(one, owner_.now_ns());
        }
    }
}

}  // namespace callgate::approval
