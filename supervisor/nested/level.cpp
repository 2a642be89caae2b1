#include "supervisor/nested/level.hpp"

#include <poll.h>

#include <algorithm>
#include <utility>

#include "supervisor/calls/files/settings_locks.hpp"

namespace callgate::nested {

namespace {

/// The plan that handlers ask where both plans hold.
rules::Plan combined(rules::Plan plan, const rules::Plan& around) {
    plan.notify_only = plan.notify_only || around.notify_only;
    plan.notify_only_execute = plan.notify_only_execute || around.notify_only_execute;
    plan.truncation_held = plan.truncation_held && around.truncation_held;
    plan.set_ids_left_out = plan.set_ids_left_out || around.set_ids_left_out;
    plan.processes_read = plan.processes_read && around.processes_read;
    plan.signals_held = plan.signals_held && around.signals_held;
    return plan;
}

bool may_kill(const rules::RuleSet& rules) {
    return std::ranges::any_of(rules.rules(),
                               [](const rules::Rule& rule) { return rule.action == rules::Action::kill; });
}

bool some_level_kills(const rules::RuleSet& rules) {
    return may_kill(rules) || (rules.outer() != nullptr && some_level_kills(*rules.outer()));
}

}  // namespace

Level::Level(Given given, const Judges& judges, const rules::Plan& plan)
    : mark(given.mark),
      depth(given.depth),
      around(std::move(given.around)),
      made(std::move(given.made)),
      guardian_handle_(std::move(given.guardian_handle)),
      rules_(std::move(given.rules)),
      plan_(combined(std::move(given.plan), plan)),
      outer_(judges),
      report(std::move(given.report)),
      grants_(plan_, &judges.decide.enforced.grants),
      moves_(*rules_, grants_, &judges.decide.enforced.moves),
      ipc_(made->objects(), &given.all_objects),
      memory_(made->objects().shared_files, agent::shared_memory_place(), &given.all_files),
      network_{judges.families.network.names},
      decide{.enforced = enforced_,
             .record_mode = judges.decide.record_mode,
             .log = judges.decide.log,
             .questions = given.asks ? judges.decide.questions : nullptr,
             .home = judges.decide.home,
             .sink = *this,
             .parties = judges.decide.parties,
             .guardian = given.guardian,
             .uid = judges.decide.uid,
             .nested = std::move(given.run),
             .refuses_object =
                 [this](const calls::Subject& one, const rules::Verdict& verdict) {
                     auto refused = memory_.refuses(one);
                     if (!refused) refused = outer_.families.files.locks->refuses(*rules_, one);
                     return refused || network_.own_sockets == nullptr
                                ? refused
                                : network_.own_sockets->refuses(one, verdict);
                 },
             .is_own_address = judges.decide.is_own_address,
             .kill_tree = [this] { kill(); },
             .sync_log = judges.decide.sync_log,
             .count_soon = judges.decide.count_soon},
      files_(narrowed_files()),
      exec_(plan_, grants_, decide),
      processes_{given.guardian, judges.families.processes.opaque},
      families_{files_, exec_, network_, ipc_, processes_},
      judged{decide, families_} {
    exec_.by_arguments = exec_.by_arguments || judges.families.exec.by_arguments;
    const calls::NetworkNeeds& outer = judges.families.network;
    if (outer.own_servers != nullptr)
        network_.own_servers = &servers_.emplace(given.guardian, *outer.own_servers);
    network_.own_sockets = outer.own_sockets;
    if (outer.own_sockets != nullptr && plan_.notified.contains(rules::Operation::bind))
        network_.own_sockets = &sockets_.emplace(*rules_, std::move(given.workdir), *outer.own_sockets);
    network_.udp = outer.udp;
    network_.look_ups = outer.look_ups;
    network_.front = outer.front;
    network_.refusals = outer.refusals;
    network_.reserved = outer.reserved;
}

bool Level::lost_guardian() const {
    pollfd ended{guardian_handle_.get(), POLLIN, 0};
    return ::poll(&ended, 1, 0) != 0;
}

bool Level::left_objects() {
    memory_.forget_removed();
    return !agent::holds_nothing(made->objects());
}

void Level::kill() {
    over.store(true);
    if (rules_->outer() != nullptr && some_level_kills(*rules_->outer())) return outer_.decide.kill_tree();
    const std::lock_guard guard(ending_);
    if (hang_up) hang_up();
}

calls::FileNeeds Level::narrowed_files() {
    const calls::FileNeeds& outer = outer_.families.files;
    return {.plan = plan_,
            .grants = grants_,
            .moves = moves_,
            .names = outer.names,
            .cross_directory_rename = outer.cross_directory_rename,
            .guardian = decide.guardian,
            .shared_memory = &memory_,
            .locks = outer.locks,
            .opaque = outer.opaque,
            .terminal = outer.terminal,
            .keep_capabilities = outer.keep_capabilities,
            .replacement = outer.replacement,
            .links = outer.links,
            .login_file = outer.login_file};
}

}  // namespace callgate::nested
