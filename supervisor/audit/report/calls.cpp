#include "supervisor/audit/report/calls.hpp"

#include "supervisor/audit/show_rows.hpp"

namespace callgate::audit::report {

void Calls::add(const Entry& entry, Outcome outcome, std::int64_t time, std::uint32_t process,
                std::uint32_t object) {
    std::size_t& listed = outcome == Outcome::allowed ? allowed_ : not_allowed_;
    const auto leave_out = [&] { count(cut_, outcome); };
    if (listed == most_of_each) return leave_out();
    CallKind kind{.outcome = outcome, .process = process};
    bool room = true;
    const auto put = [&](std::uint32_t& number, const std::string& text) {
        const auto known = strings_->add(text);
        room = room && known.has_value();
        number = known.value_or(0);
    };
    put(kind.verdict, entry.verdict);
    put(kind.operation, entry.operation);
    put(kind.rule, entry.rule);
    put(kind.decided_by, entry.decided_by);
    put(kind.mechanism, entry.mechanism);
    put(kind.error, entry.error);
    put(kind.reason, entry.reason);
    put(kind.program, entry.program);
    for (const std::string& name : entry.operations)
        if (const auto set = rules::parse_operations(name))
            for (const rules::Operation one : *set) kind.operations |= 1U << static_cast<unsigned>(one);
    if (!room) return leave_out();
    auto number = numbers_.find(kind);
    if (number == numbers_.end()) {
        if (kinds_.size() == most_kinds) return leave_out();
        number = numbers_.emplace(kind, static_cast<std::uint32_t>(kinds_.size())).first;
        kinds_.push_back(kind);
    }
    ++listed;
    calls_.push_back({.time = time, .sequence = entry.sequence, .kind = number->second, .object = object});
}

void Calls::add_event(const Entry& entry, std::int64_t time) {
    if (entry.action == "checkpoint") return;  // tells of the log, not of the run
    const auto text = events_ < most_events ? strings_->add(other_text(entry)) : std::nullopt;
    if (!text) {
        ++events_cut_;
        return;
    }
    ++events_;
    calls_.push_back({.time = time, .sequence = entry.sequence, .kind = Call::event, .object = *text});
}

}  // namespace callgate::audit::report
