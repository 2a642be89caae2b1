#include "supervisor/approval/grants.hpp"

#include <algorithm>

namespace callgate::approval {

namespace {

bool within(std::string_view path, std::string_view directory) {
    return path == directory ||
           (path.size() > directory.size() && path.starts_with(directory) && path[directory.size()] == '/');
}

}  // namespace

bool Grant::covers(const Subject& asked) const {
    if (subject.program.empty() || asked.program != subject.program) return false;
    if (!subject.operations.contains_all(asked.operations) ||
        !subject.second_operations.contains_all(asked.second_operations)) {
        return false;
    }
    if (scope == Scope::tree) {
        return asked.object.kind == AskedObject::Kind::file &&
               within(asked.object.name, subject.object.name) &&
               (asked.second_path.empty() || within(asked.second_path, subject.object.name));
    }
    return asked.object == subject.object && asked.second_path == subject.second_path &&
           asked.arguments == subject.arguments;
}

std::string Grant::text() const {
    std::string text = rules::names(subject.operations | subject.second_operations) + ' ';
    if (scope == Scope::tree) text += "everything beneath ";
    text += subject.object.text();
    if (!subject.second_path.empty()) text += " -> " + subject.second_path;
    for (std::size_t index = 1; index < subject.arguments.size(); ++index)
        text += ' ' + subject.arguments[index];
    return text;
}

std::uint64_t Grants::add(const Question& question, const Reply& reply, std::int64_t now_ns) {
    if (all_.size() == most) return 0;
    Grant grant;
    grant.number = ++last_;
    grant.question = question.id;
    grant.action = reply.action;
    grant.scope = reply.scope;
    grant.subject = question.subject;
    if (reply.scope == Scope::tree) {
        grant.subject.object.name = question.directory_of_tree();
        grant.subject.second_path.clear();
    }
    grant.who = reply.who;
    grant.given_ns = now_ns;
    all_.push_back(std::move(grant));
    return last_;
}

const Grant* Grants::find(const Subject& asked) {
    Grant* found = nullptr;
    for (Grant& grant : all_) {
        if (found != nullptr && grant.action == rules::Action::allow) continue;
        if (grant.covers(asked)) found = &grant;
        if (found != nullptr && found->action == rules::Action::deny) break;
    }
    if (found != nullptr) ++found->used;
    return found;
}

bool Grants::revoke(std::uint64_t number) {
    return std::erase_if(all_, [number](const Grant& grant) { return grant.number == number; }) > 0;
}

}  // namespace callgate::approval
