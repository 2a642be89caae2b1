// The needs of a run's calls, made of values, for tests and fuzzers: rules, an empty plan, no log and no
// questions.
#pragma once

#include <unistd.h>

#include <utility>
#include <vector>

#include "agent/created_ipc.hpp"
#include "supervisor/receive/families.hpp"

namespace callgate::fakes {

/// Remembers the notes on each decision.
class Sink final : public calls::DecisionSink {
public:
    struct Noted {
        rules::Action action = rules::Action::deny;
        audit::Mechanism mechanism = audit::Mechanism::error;
    };
    std::vector<Noted> noted;

    void note(const audit::Decision& decision) override {
        noted.push_back({decision.verdict.action, decision.mechanism});
    }
};

/// With an empty plan Landlock holds nothing: every call is contested.
struct RunNeeds {
    RunNeeds(std::vector<rules::Rule> all, rules::Action fallback, rules::Plan given = {})
        : rules(std::move(all), fallback), plan(std::move(given)) {}
    /// The plan is what `make_plan` says of the rules.
    RunNeeds(std::vector<rules::Rule> all, rules::Action fallback, const rules::PlanInput& input)
        : rules(std::move(all), fallback), plan(rules::make_plan(rules, input)) {}

    const rules::RuleSet rules;
    const rules::Plan plan;
    const rules::StaticGrants grants{plan};
    const rules::RenameCheck moves{rules, grants};
    const calls::Basis enforced{rules, grants, moves};
    Sink sink;
    int kills = 0;
    agent::SharedObjects made = agent::SharedObjects::make().value();
    calls::NameLock names{-1};
    calls::DecideNeeds decide{.enforced = enforced,
                              .record_mode = plan.record,
                              .sink = sink,
                              .uid = ::geteuid(),
                              .kill_tree = [this] { ++kills; }};
    calls::FileNeeds files{.plan = plan, .grants = grants, .moves = moves, .names = names};
    calls::ExecNeeds exec{plan, grants, decide};
    calls::NetworkNeeds network{names};
    calls::IpcObjects ipc{made.objects()};
    calls::OpaqueMemories opaque;
    calls::ProcessNeeds processes{.opaque = opaque};
    WorkerNeeds needs{.decide = decide, .families = {files, exec, network, ipc, processes}};
};

}  // namespace callgate::fakes
