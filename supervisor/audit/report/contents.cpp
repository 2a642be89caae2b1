#include "supervisor/audit/report/contents.hpp"

#include <algorithm>

#include "supervisor/audit/verbs/show_rows.hpp"

namespace callgate::audit::report {

std::optional<std::uint32_t> Strings::add(std::string_view text) {
    if (const auto known = numbers_.find(text); known != numbers_.end()) return known->second;
    constexpr std::size_t entry = 64;
    if (text.size() + entry > left_) return std::nullopt;
    left_ -= text.size() + entry;
    const auto number = static_cast<std::uint32_t>(texts_.size());
    numbers_.emplace(texts_.emplace_back(text), number);
    return number;
}

namespace {

constexpr std::uint32_t others = 0;
/// Leaves room for directories that stand for the objects beneath them.
constexpr std::size_t max_with_directories = Objects::most + 20'000;

ObjectKind kind_of(const Entry& entry) {
    if (!entry.host.empty()) return ObjectKind::host;
    if (entry.object.starts_with('@')) return ObjectKind::name;
    return entry.socket_type.empty() ? ObjectKind::path : ObjectKind::socket;
}

}  // namespace

Objects::Objects(Strings& strings) : strings_(&strings) { objects_.emplace_back(); }

std::uint32_t Objects::add(const Entry& entry, Outcome outcome) {
    const std::uint32_t number = find_or_add(entry);
    Object& object = objects_[number];
    count(object.calls, outcome, entry.count);
    if (const auto operation = rules::parse_operations(entry.operation)) object.operations |= *operation;
    if (object.kind == ObjectKind::beneath || object.kind == ObjectKind::others) rolled_up_ += entry.count;
    return number;
}

std::uint32_t Objects::find_or_add(const Entry& entry) {
    const auto text = strings_->add(entry.object);
    const ObjectKind kind = kind_of(entry);
    const bool has_path = kind == ObjectKind::path || kind == ObjectKind::socket;
    Object object{.text = text.value_or(Object::none), .kind = kind};
    if (!entry.second_object.empty())
        object.second = strings_->add(entry.second_object).value_or(Object::none);
    if (kind == ObjectKind::host) object.host = strings_->add(entry.host).value_or(Object::none);
    const bool room = text && (kind != ObjectKind::host || object.host != Object::none);
    if (room)
        if (const std::uint32_t number = insert(object, most); number != others) return number;
    return has_path ? roll_up(entry.object) : others;
}

std::uint32_t Objects::roll_up(std::string_view path) {
    while (path.size() > 1) {
        path = path.substr(0, std::max<std::size_t>(path.rfind('/'), 1));
        if (path.find('/') == std::string_view::npos) return others;
        const auto text = strings_->add(path);
        if (!text) continue;
        const std::uint32_t number =
            insert({.text = *text, .kind = ObjectKind::beneath}, max_with_directories);
        if (number != others) return number;
    }
    return others;
}

std::uint32_t Objects::insert(const Object& object, std::size_t limit) {
    const Key key{object.text, object.second, object.host, object.kind};
    if (const auto known = numbers_.find(key); known != numbers_.end()) return known->second;
    if (objects_.size() >= limit) return others;
    const auto number = static_cast<std::uint32_t>(objects_.size());
    numbers_.emplace(key, number);
    objects_.push_back(object);
    return number;
}

Processes::Processes(Strings& strings) : strings_(&strings) { processes_.emplace_back(); }

std::uint32_t Processes::add(const Entry& entry, std::uint32_t run, std::int64_t time, Outcome outcome) {
    const Key key{run, entry.pid, entry.start_time};
    std::uint32_t number = 0;
    if (const auto known = numbers_.find(key); known != numbers_.end()) {
        number = known->second;
    } else if (processes_.size() <= most) {
        number = static_cast<std::uint32_t>(processes_.size());
        numbers_.emplace(key, number);
        Process process{.pid = entry.pid, .parent_pid = entry.parent, .start_time = entry.start_time};
        process.run = run;
        process.first = time;
        processes_.push_back(std::move(process));
    }
    Process& process = processes_[number];
    process.last = std::max(process.last, time);
    count(process.calls, outcome, entry.count);
    if (number == 0 || process.programs.size() == max_programs) return number;
    const auto program = strings_->add(entry.program);
    if (program && (process.programs.empty() || process.programs.back() != *program))
        process.programs.push_back(*program);
    return number;
}

void Processes::join() {
    for (std::uint32_t number = 1; number < processes_.size(); ++number) {
        Process& process = processes_[number];
        if (process.parent_pid == 0) continue;
        // Pids are used again. The parent is the last process with its pid that had begun by then.
        auto after = numbers_.upper_bound({process.run, process.parent_pid, process.start_time});
        if (after == numbers_.begin()) continue;
        --after;
        const auto& [run, pid, start] = after->first;
        // A process that is its own parent, or a cycle, is no tree. Both come only from an edited log.
        const bool earlier = after->second < number || start < process.start_time;
        if (run == process.run && pid == process.parent_pid && after->second != number && earlier)
            process.parent = after->second;
    }
}

void Histogram::add(std::int64_t time, Outcome outcome, std::uint64_t calls) {
    if (steps_.empty()) start_ = time;
    const std::int64_t since = std::max<std::int64_t>(time - start_, 0);
    while (since / width_ >= static_cast<std::int64_t>(max_steps)) widen();
    const auto step = static_cast<std::size_t>(since / width_);
    if (step >= steps_.size()) steps_.resize(step + 1);
    count(steps_[step], outcome, calls);
}

void Histogram::widen() {
    width_ *= 2;
    for (std::size_t step = 0; step < steps_.size(); ++step) {
        const Tally tally = steps_[step];
        if (step != 0) steps_[step] = {};
        for (std::size_t one = 0; one < outcomes; ++one) {
            if (step != 0) steps_[step / 2][one] += tally[one];
        }
    }
    steps_.resize((steps_.size() + 1) / 2);
}

void Calls::add(const Entry& entry, Outcome outcome, std::int64_t time, std::uint32_t process,
                std::uint32_t object) {
    std::size_t& listed = outcome == Outcome::allowed ? allowed_ : not_allowed_;
    const auto leave_out = [&] { count(cut_, outcome, entry.count); };
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
    calls_.push_back({.time = time,
                      .sequence = entry.sequence,
                      .kind = number->second,
                      .object = object,
                      .count = entry.count});
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

void Denials::add(const Entry& entry, Outcome outcome, std::int64_t time, std::uint32_t object,
                  std::string_view line) {
    Denial denial{.outcome = outcome, .object = object, .count = entry.count, .sequence = entry.sequence};
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
        same.count += entry.count;
        same.last = time;
        return;
    }
    if (!number_of.room() || denials_.size() == most) {
        cut_ += entry.count;
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
