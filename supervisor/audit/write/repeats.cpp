#include "supervisor/audit/write/repeats.hpp"

#include <algorithm>
#include <utility>

#include "base/test_switch.hpp"

namespace callgate::audit {

namespace {

void add(std::string& key, std::string_view text) {
    key += std::to_string(text.size());
    key += ':';
    key += text;
}

template <typename Number>
void add_number(std::string& key, Number number) {
    key += std::to_string(number);
    key += ',';
}

void add_operations(std::string& key, rules::OperationSet operations) {
    for (const rules::Operation one : operations) add_number(key, static_cast<unsigned>(one));
    key += ';';
}

static_assert(std::variant_size_v<rules::Object> == 4, "each kind is compared and kept here");

void add_object(std::string& key, const rules::Object& object) {
    add_number(key, object.index());
    if (const auto* file = std::get_if<rules::FileObject>(&object)) {
        add(key, file->path);
        add_number(key, int{file->unlinked});
    } else if (const auto* local = std::get_if<rules::UnixObject>(&object)) {
        add(key, local->name);
        add_number(key, static_cast<unsigned>(local->type));
    } else if (const auto* there = std::get_if<rules::Endpoint>(&object)) {
        for (const std::uint8_t byte : there->address.bytes) key += static_cast<char>(byte);
        add_number(key, int{there->address.v6});
        add_number(key, there->port);
        add_number(key, static_cast<unsigned>(there->protocol));
        add_number(key, int{there->of_run});
        for (const std::string& name : there->names) add(key, name);
    } else if (const auto* host = std::get_if<rules::HostName>(&object)) {
        add(key, host->name);
    }
}

}  // namespace

std::string_view KeptDecision::keep(std::string_view text) {
    if (text.data() == nullptr) return {};  // absent, which is not the same as empty
    return texts_.emplace_back(text);
}

KeptDecision::KeptDecision(const Decision& decision)
    : arguments_(decision.input.arguments.begin(), decision.input.arguments.end()), decision_(decision) {
    decision_.call = keep(decision.call);
    decision_.caller.executable = keep(decision.caller.executable);
    decision_.caller.nested = keep(decision.caller.nested);
    decision_.input.working_directory = keep(decision.input.working_directory);
    decision_.input.path = keep(decision.input.path);
    decision_.input.second_path = keep(decision.input.second_path);
    for (std::string_view& flag : decision_.input.flags) flag = keep(flag);
    decision_.input.arguments = arguments_;
    decision_.reason = keep(decision.reason);
    decision_.interpreter_of = keep(decision.interpreter_of);
    if (auto* file = std::get_if<rules::FileObject>(&decision_.object)) file->path = keep(file->path);
    if (auto* local = std::get_if<rules::UnixObject>(&decision_.object)) local->name = keep(local->name);
    if (auto* host = std::get_if<rules::HostName>(&decision_.object)) host->name = keep(host->name);
    if (auto* there = std::get_if<rules::Endpoint>(&decision_.object)) {
        names_.assign(there->names.begin(), there->names.end());
        there->names = names_;
    }
    if (decision_.second_object) decision_.second_object->path = keep(decision_.second_object->path);
    if (decision.verdict.rule != nullptr && !decision.caller.nested.empty())
        decision_.verdict.rule = &rule_.emplace(*decision.verdict.rule);
}

bool Repeats::countable(const Decision& decision) {
    if (!check_enabled("repeats")) return false;
    std::size_t bytes = 0;
    for (const std::string& argument : decision.input.arguments) bytes += argument.size();
    const bool standing =
        decision.verdict.decided_by == rules::DecidedBy::grant && check_enabled("standing-denials");
    const bool asked = decision.question != 0 || decision.grant != 0;
    const bool plain = (!asked || standing) && decision.of_sequence == 0 && decision.interpreter_of.empty();
    return plain && bytes <= max_argument_bytes && decision.mechanism == Mechanism::error &&
           (decision.verdict.action == rules::Action::deny || decision.verdict.action == rules::Action::ask);
}

std::string Repeats::key_of(const Decision& decision) {
    std::string key;
    add(key, decision.call);
    add_number(key, static_cast<unsigned>(decision.operation));
    add_operations(key, decision.operations);
    add_operations(key, decision.first_operations);
    add_operations(key, decision.second_operations);
    add_object(key, decision.object);
    if (decision.second_object) add_object(key, *decision.second_object);
    add(key, decision.caller.executable);
    add_number(key, decision.caller.party ? static_cast<int>(*decision.caller.party) : -1);
    add(key, decision.caller.nested);
    add_number(key, static_cast<unsigned>(decision.verdict.action));
    add_number(key, static_cast<unsigned>(decision.verdict.decided_by));
    add_number(key, reinterpret_cast<std::uintptr_t>(decision.verdict.rule));
    add_number(key, decision.verdict.error);
    add(key, decision.reason);
    add_number(key, decision.question);
    add_number(key, decision.grant);
    for (const std::string& argument : decision.input.arguments) add(key, argument);
    return key;
}

/// If there is no room, the group that was seen longest ago gives way. A group whose count has no record
/// stays.
Repeats::Group* Repeats::find_or_add(const std::string& key) {
    if (const auto known = groups_.find(key); known != groups_.end()) return &known->second;
    if (groups_.size() >= max_groups) {
        auto oldest = groups_.end();
        for (auto one = groups_.begin(); one != groups_.end(); ++one) {
            if (one->second.pending != 0) continue;
            if (oldest == groups_.end() || one->second.seen_ns < oldest->second.seen_ns) oldest = one;
        }
        if (oldest == groups_.end()) return nullptr;
        groups_.erase(oldest);
    }
    return &groups_[key];
}

Repeats::Seen Repeats::see(const std::string& key, const Decision& decision, std::int64_t now_ns) {
    Group* const group = find_or_add(key);
    if (group == nullptr) return {};
    group->seen_ns = now_ns;
    if (group->written < max_equal_) {
        ++group->written;
        group->recorded_ns = now_ns;
        return {.count = 1, .announces = group->written == max_equal_};
    }
    if (++group->pending == 1) group->last = std::make_shared<const KeptDecision>(decision);
    if (now_ns - group->recorded_ns < interval_ns) return {.count = 0};
    group->recorded_ns = now_ns;
    return {.count = std::exchange(group->pending, 0)};
}

void Repeats::unwritten(const std::string& key, std::uint64_t count) {
    const auto known = groups_.find(key);
    if (known == groups_.end()) return;
    Group& group = known->second;
    if (group.last) {
        group.pending += count;
    } else {
        --group.written;
    }
}

bool Repeats::any_pending() const {
    return std::ranges::any_of(groups_, [](const auto& one) { return one.second.pending != 0; });
}

std::vector<Repeats::Due> Repeats::take_due(std::int64_t now_ns, bool all) {
    std::vector<Due> due;
    for (auto& [key, group] : groups_) {
        if (group.pending == 0 || (!all && now_ns - group.recorded_ns < interval_ns)) continue;
        due.push_back({key, group.last, std::exchange(group.pending, 0)});
        group.recorded_ns = now_ns;
    }
    return due;
}

}  // namespace callgate::audit
