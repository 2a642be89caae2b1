#include "supervisor/audit/report/calls.hpp"

#include "supervisor/audit/verbs/show_rows.hpp"

namespace callgate::audit::report {

void Calls::add(const Entry& entry, Outcome outcome, std::int64_t time, std::uint32_t process,
                std::uint32_t object) {
    std::size_t& listed = outcome == Outcome::allowed ? allowed_ : not_allowed_;
    const auto leave_out = [&] { count(cut_, outcome); };
    if (listed == max_of_each) return leave_out();
    CallKind kind{.outcome = outcome, .process = process};
    Numbering number_of(*strings_);
    kind.verdict = number_of(entry.verdict);
    kind.operation = number_of(entry.operation);
    kind.rule = number_of(entry.rule);
    kind.decided_by = number_of(entry.decided_by);
    kind.mechanism = number_of(entry.mechanism);
    kind.error = number_of(entry.error);
    kind.reason = number_of(entry.reason);
    kind.program = number_of(entry.program);
    for (const std::string& name : entry.operations)
        if (const auto set = rules::parse_operations(name))
            for (const rules::Operation one : *set) kind.operations |= 1U << static_cast<unsigned>(one);
    if (!number_of.room()) return leave_out();
    auto number = numbers_.find(kind);
    if (number == numbers_.end()) {
        if (kinds_.size() == max_kinds) return leave_out();
        number = numbers_.emplace(kind, static_cast<std::uint32_t>(kinds_.size())).first;
        kinds_.push_back(kind);
    }
    ++listed;
    calls_.push_back({.time = time, .sequence = entry.sequence, .kind = number->second, .object = object});
}

void Calls::add_event(const Entry& entry, std::int64_t time) {
    if (entry.action == "checkpoint") return;  // is about the log, not about the run
    const auto text = events_ < max_events ? strings_->add(other_text(entry)) : std::nullopt;
    if (!text) {
        ++events_cut_;
        return;
    }
    ++events_;
    calls_.push_back({.time = time, .sequence = entry.sequence, .kind = Call::event, .object = *text});
}

}  // namespace callgate::audit::report
