#include "rules/model/verdict.hpp"

#include <array>

#include "rules/model/rule.hpp"

namespace callgate::rules {

namespace {
constexpr std::array<std::string_view, 4> actions = {"allow", "ask", "deny", "kill"};
constexpr std::array<std::string_view, 7> deciders = {"rule",    "default", "grant",  "person",
                                                      "program", "timeout", "failure"};
}  // namespace

std::string_view name(Action action) { return actions[static_cast<std::size_t>(action)]; }

std::string_view name(DecidedBy decided_by) { return deciders[static_cast<std::size_t>(decided_by)]; }

std::string_view Verdict::rule_name() const {
    return rule != nullptr ? std::string_view(rule->id) : std::string_view("default");
}

std::string_view Verdict::reason() const {
    return rule != nullptr ? std::string_view(rule->reason) : std::string_view();
}

}  // namespace callgate::rules
