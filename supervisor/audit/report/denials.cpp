#include "supervisor/audit/report/denials.hpp"

namespace callgate::audit::report {

void Denials::add(const Entry& entry, Outcome outcome, std::int64_t time, std::uint32_t object,
                  std::string_view line) {
    Denial denial{.outcome = outcome, .object = object, .count = 1, .sequence = entry.sequence};
    Numbering number_of(*strings_);
    denial.verdict = number_of(entry.verdict);
    denial.operation = number_of(entry.operation);
    denial.rule = number_of(entry.rule);
    denial.decided_by = number_of(entry.decided_by);
    denial.error = number_of(entry.error);
    denial.reason = number_of(entry.reason);
    denial.program = number_of(entry.program);
    const Key key{outcome, denial.verdict, denial.operation, denial.rule, object};
    if (const auto known = numbers_.find(key); number_of.room() && known != numbers_.end()) {
        Denial& same = denials_[known->second];
        ++same.count;
        same.last = time;
        return;
    }
    if (!number_of.room() || denials_.size() == most) {
        ++cut_;
        return;
    }
    numbers_.emplace(key, static_cast<std::uint32_t>(denials_.size()));
    denial.first = denial.last = time;
    if (const auto request = parse_request(line)) denial.fix = fix_for(*request, entry.operation);
    fix_bytes_ += denial.fix.option.size() + denial.fix.also.size();
    if (fix_bytes_ > max_fix_bytes)
        denial.fix = {"", "", "left out, as the page would become too large: see callgate audit show"};
    denials_.push_back(std::move(denial));
}

}  // namespace callgate::audit::report
