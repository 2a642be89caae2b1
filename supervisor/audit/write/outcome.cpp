#include "supervisor/audit/write/outcome.hpp"

#include <array>
#include <csignal>

namespace callgate {

namespace {

struct Row {
    Outcome outcome;
    std::string_view name;
    std::optional<int> status;
};

constexpr std::array<Row, 14> rows{{
    {Outcome::exited, "exited", std::nullopt},
    {Outcome::signaled, "signaled", std::nullopt},
    {Outcome::exec_failed, "exec_failed", std::nullopt},
    {Outcome::memory, "memory", 128 + SIGKILL},
    {Outcome::processes, "processes", 128 + SIGKILL},
    {Outcome::disk, "disk", 128 + SIGKILL},
    {Outcome::cpu, "cpu", 128 + SIGXCPU},
    {Outcome::timeout, "timeout", 124},
    {Outcome::idle_timeout, "idle_timeout", 124},
    {Outcome::log_full, "log_full", 128 + SIGKILL},
    {Outcome::killed_by_rule, "killed_by_rule", 128 + SIGKILL},
    {Outcome::cancelled, "cancelled", std::nullopt},
    {Outcome::setup_error, "setup_error", 125},
    {Outcome::supervisor_lost, "supervisor_lost", std::nullopt},
}};

constexpr bool in_order() {
    for (std::size_t at = 0; at < rows.size(); ++at)
        if (static_cast<std::size_t>(rows[at].outcome) != at) return false;
    return rows.size() == static_cast<std::size_t>(Outcome::supervisor_lost) + 1;
}
static_assert(in_order(), "each outcome has a row, in the order of the enum");

const Row& row(Outcome outcome) { return rows[static_cast<std::size_t>(outcome)]; }

}  // namespace

std::string_view name(Mode mode) { return mode == Mode::audit ? "audit" : "enforce"; }

std::string_view name(Outcome outcome) { return row(outcome).name; }

std::optional<int> exit_status(Outcome outcome) { return row(outcome).status; }

}  // namespace callgate
