// One approver, as the protocol has it: no descriptor, no clock of its own.
//
// Bytes come in and go out; who is behind them was found out by the channel. Until a required token was given
// nothing is shown and nothing is taken. One thread only (the event loop).
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>

#include "supervisor/approval/protocol/wire.hpp"

namespace callgate::approval {

class ProtocolSession {
public:
    struct Settings {
        std::string run;
        std::string token;  // "": none is required
        audit::Answerer who;
        rules::DecidedBy by = rules::DecidedBy::program;
    };
    struct Environment {
        std::function<std::int64_t()> now_ns;
        std::function<std::string()> status;  // a whole message
        std::function<void()> stop;           // ends the run
        std::function<void()> arrived;        // it has authenticated itself
    };
    ProtocolSession(QuestionQueue& broker, Settings settings, Environment environment);

    /// False: it is to be closed, after what is to be sent was sent.
    [[nodiscard]] bool receive(std::string_view bytes);
    /// Says what came and went since.
    void show(const std::vector<QuestionQueue::Open>& questions);
    /// What is to be sent; taken away.
    [[nodiscard]] std::string take_output() { return std::exchange(output_, {}); }
    [[nodiscard]] bool authenticated() const { return authenticated_; }

private:
    bool handle(std::string_view line);
    void decide(const DecisionMessage& decision);

    QuestionQueue& broker_;
    Settings settings_;
    Environment environment_;
    std::string input_, output_;
    bool authenticated_ = false;
    using Counts = std::pair<std::uint64_t, std::uint64_t>;  // that asked, that wait
    std::map<std::uint64_t, Counts> shown_;                  // by question
};

}  // namespace callgate::approval
