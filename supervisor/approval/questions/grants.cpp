#include "supervisor/approval/questions/grants.hpp"

#include <algorithm>

namespace callgate::approval {

namespace {

bool within(std::string_view path, std::string_view directory) {
    return path == directory ||
           (path.size() > directory.size() && path.starts_with(directory) && path[directory.size()] == '/');
}

/// Whether the grant of a name, or of the names below a zone, is one for this name.
bool names(const Grant& grant, const std::string& name) {
    return rules::HostPattern{grant.subject.object.name, grant.scope == Scope::tree}.matches(name);
}

/// A grant to tools reaches the agent, too: it could start a tool for that. No other grant leaves its party.
bool reaches(const std::optional<rules::Party>& granted, const std::optional<rules::Party>& asking) {
    return asking == granted || (granted == rules::Party::tools && asking == rules::Party::agent);
}

}  // namespace

bool Grant::covers(const Subject& asked) const {
    if (scope == Scope::run) return true;
    if (subject.program.empty() || (asked.program != subject.program && !subject.any_program) ||
        !reaches(subject.party, asked.party))
        return false;
    if (!subject.operations.contains_all(asked.operations) ||
        !subject.second_operations.contains_all(asked.second_operations)) {
        return false;
    }
    if (subject.object.kind == AskedObject::Kind::host) {
        // A grant for the look-up of a name is one for connects to its addresses.
        if (asked.object.kind == AskedObject::Kind::host) return names(*this, asked.object.name);
        return asked.object.kind == AskedObject::Kind::internet &&
               std::ranges::any_of(asked.object.names,
                                   [this](const std::string& name) { return names(*this, name); });
    }
    if (scope == Scope::tree) {
        return asked.object.kind == AskedObject::Kind::file &&
               within(asked.object.name, subject.object.name) &&
               (asked.second_path.empty() ||
                (asked.arguments.empty() && within(asked.second_path, subject.object.name)));
    }
    return asked.object == subject.object && asked.second_path == subject.second_path &&
           asked.arguments == subject.arguments;
}

bool Grant::touches(std::string_view path) const {
    if (subject.object.kind == AskedObject::Kind::internet || subject.object.kind == AskedObject::Kind::host)
        return false;
    return within(subject.object.name, path) || holds(path);
}

bool Grant::holds(std::string_view path) const {
    return scope == Scope::tree ? within(path, subject.object.name) : path == subject.object.name;
}

std::string Grant::text() const {
    if (scope == Scope::run) return "all further questions of this run";
    if (subject.object.kind == AskedObject::Kind::host)
        return "look up " + subject.object.name + " and connect to it";
    std::string text = rules::names(subject.operations | subject.second_operations) + ' ';
    if (scope == Scope::tree) text += "everything beneath ";
    text += subject.object.text();
    if (!subject.second_path.empty()) text += " -> " + subject.second_path;
    const bool changes = !subject.second_path.empty();
    for (std::size_t index = changes ? 0 : 1; index < subject.arguments.size(); ++index)
        text += (changes ? ": " : " ") + subject.arguments[index];
    if (subject.any_program) text += ", for every program";
    return text;
}

std::string tree_of(const Question& question, const Reply& reply) {
    return reply.tree.empty() ? question.directory_of_tree() : reply.tree;
}

Grant grant_of(const Question& question, const Reply& reply) {
    Grant grant;
    grant.question = question.id;
    grant.action = reply.action;
    grant.scope = reply.scope;
    grant.subject = question.subject;
    if (reply.scope == Scope::tree) {
        grant.subject.object.name = tree_of(question, reply);
        grant.subject.second_path.clear();
        if (reply.reads_and_writes)
            grant.subject.operations = grant.subject.second_operations = reading_and_writing;
    }
    grant.who = reply.who;
    return grant;
}

std::uint64_t Grants::add(const Question& question, const Reply& reply) {
    Grant grant = grant_of(question, reply);
    grant.number = last_ + 1;
    return restore(std::move(grant)) ? last_ : 0;
}

bool Grants::restore(Grant grant) {
    if ((all_.size() >= max_grants && grant.scope != Scope::run) || grant.number <= last_) return false;
    last_ = grant.number;
    all_.push_back(std::move(grant));
    return true;
}

const Grant* Grants::deciding(const Subject& asked) const {
    const Grant* found = nullptr;
    const Grant* denies_all = nullptr;
    for (const Grant& grant : all_) {
        if (grant.scope == Scope::run) {
            denies_all = denies_all == nullptr ? &grant : denies_all;
            continue;
        }
        if (found != nullptr && grant.action == rules::Action::allow) continue;
        if (grant.covers(asked)) found = &grant;
        if (found != nullptr && found->action == rules::Action::deny) break;
    }
    return found != nullptr ? found : denies_all;
}

const Grant* Grants::find(const Subject& asked) {
    const Grant* const found = deciding(asked);
    if (found != nullptr) ++all_[static_cast<std::size_t>(found - all_.data())].used;
    return found;
}

bool Grants::gained_by_move(std::string_view old_path, std::string_view new_path) const {
    return std::ranges::any_of(all_, [&](const Grant& grant) {
        return grant.action == rules::Action::allow && grant.touches(new_path) && !grant.holds(old_path);
    });
}

bool Grants::denies_all() const {
    return std::ranges::any_of(all_, [](const Grant& grant) { return grant.scope == Scope::run; });
}

bool Grants::revoke(std::uint64_t number) {
    return std::erase_if(all_, [number](const Grant& grant) { return grant.number == number; }) > 0;
}

}  // namespace callgate::approval
