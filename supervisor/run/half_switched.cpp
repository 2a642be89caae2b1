// The line of the footer about a checkout that stopped half-way.
//
// git goes on after a file that it could not change, so its message scrolls away. Whatever rule denied it,
// the tree is then neither the old one nor the new one.
#include <algorithm>
#include <array>
#include <string_view>

#include "base/escape.hpp"
#include "supervisor/run/report_parts.hpp"

namespace callgate {

namespace {

/// The name beneath the work directory that git could not change; "" for another denial, or git's own files.
std::string_view left_behind(const Denial& denial, std::string_view workdir) {
    constexpr std::array changes{rules::Operation::modify, rules::Operation::create,
                                 rules::Operation::remove};
    const std::string_view program(denial.program);
    if (denial.would || program.substr(program.rfind('/') + 1) != "git" ||
        std::ranges::find(changes, denial.operation) == changes.end())
        return {};
    std::string_view name(denial.object);
    if (!name.starts_with(workdir) || !name.substr(workdir.size()).starts_with('/')) return {};
    name.remove_prefix(workdir.size() + 1);
    const bool own = name.starts_with(".git/") || name == ".git" || name.ends_with("/.git") ||
                     name.find("/.git/") != std::string_view::npos;
    return own ? std::string_view() : name;
}

}  // namespace

std::string half_switched_text(const std::vector<Denial>& denials, std::string_view workdir) {
    const auto behind = std::ranges::find_if(
        denials, [workdir](const Denial& one) { return !left_behind(one, workdir).empty(); });
    if (behind == denials.end()) return {};
    return "callgate: the tree is half switched: git could not change " +
           terminal_safe(left_behind(*behind, workdir)) +
           "; outside callgate run git status, undo what you did not change yourself, and run git again\n";
}

}  // namespace callgate
