// The protocol with one approver, without a descriptor and without a clock.
//
// Bytes come in and go out; the channel has found out which process sends them. Until a required token was
// given, no question is sent and no answer is taken. One thread only (the event loop).
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "supervisor/approval/protocol/wire.hpp"

namespace callgate::approval {

/// The run, as a session uses it.
class SessionOwner {
public:
    [[nodiscard]] virtual std::int64_t now_ns() = 0;
    /// A whole `status` message.
    [[nodiscard]] virtual std::string status_of_run() = 0;
    /// `callgate stop`.
    virtual void stop_run() = 0;
    /// An approver has authenticated itself.
    virtual void approver_arrived() = 0;

protected:
    ~SessionOwner() = default;
};

class ProtocolSession {
public:
    struct Settings {
        std::string run;
        std::string token;  // "" if none is required
        audit::Answerer who;
        rules::DecidedBy by = rules::DecidedBy::program;
    };
    /// `questions` and `owner` outlive the session.
    ProtocolSession(QuestionQueue& questions, Settings settings, SessionOwner& owner);

    /// False: the connection is to be closed once the output was sent.
    [[nodiscard]] bool receive(std::string_view bytes);
    /// Sends the changes since the last call.
    void show(const std::vector<QuestionQueue::Open>& questions);
    /// Removes and returns the bytes to send.
    [[nodiscard]] std::string take_output() { return std::exchange(output_, {}); }
    [[nodiscard]] bool authenticated() const { return authenticated_; }

private:
    bool handle(std::string_view line);
    void decide(const DecisionMessage& decision);

    QuestionQueue& questions_;
    Settings settings_;
    SessionOwner& owner_;
    std::string input_, output_;
    bool authenticated_ = false;
    using Counts = std::pair<std::uint64_t, std::uint64_t>;  // callers that asked, callers that wait
    std::map<std::uint64_t, Counts> shown_;                  // by question
};

}  // namespace callgate::approval
