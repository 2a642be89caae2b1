// Denials that have one remedy, as one line of the footer.
//
// A program that is kept from one name of a directory is often kept from the next one. Whoever allows each by
// its own option never ends. So from the third name on, the directory is named. Rules that deny go on to
// hold in it, whatever an option allows.
#include <algorithm>
#include <array>
#include <map>
#include <string_view>
#include <tuple>

#include "base/at_or_beneath.hpp"
#include "base/escape.hpp"
#include "supervisor/run/report_parts.hpp"

namespace callgate {

namespace {

constexpr std::size_t enough = 3;

std::string_view containing(std::string_view path) { return path.substr(0, path.rfind('/')); }

/// The option that allows the denied name and nothing else; "" if there is no such one.
std::string_view option_of(const Denial& denial) {
    for (const std::string_view option : {"--read ", "--write ", "--execute "})
        if (denial.hint == std::string(option) + shell_quote(denial.object)) return option;
    return {};
}

/// Whether an option may name the directory: the files of one program or project, as far as a name can tell.
bool belongs_together(std::string_view directory, const std::string& home) {
    constexpr std::array<std::string_view, 5> of_all_programs{"/.config", "/.local", "/.local/share",
                                                              "/.local/state", "/.cache"};
    if (home.empty() || !is_small_tree(directory, home)) return false;
    return !directory.starts_with(home) ||
           std::ranges::find(of_all_programs, directory.substr(home.size())) == of_all_programs.end();
}

}  // namespace

std::vector<Denial> gathered(const std::vector<Denial>& denials, const std::string& home) {
    using Key = std::tuple<rules::Operation, std::string_view, std::string_view, std::string_view>;
    const auto key_of = [](const Denial& one) {
        return Key{one.operation, one.note, option_of(one), containing(one.object)};
    };
    std::map<Key, std::vector<const Denial*>> together;
    for (const Denial& one : denials)
        if (!one.would && !one.by_rule && !option_of(one).empty() &&
            belongs_together(containing(one.object), home))
            together[key_of(one)].push_back(&one);

    std::vector<Denial> lines;
    for (const Denial& one : denials) {
        const auto found = together.find(key_of(one));
        if (one.would || found == together.end() || found->second.size() < enough) {
            lines.push_back(one);
            continue;
        }
        if (found->second.front() != &one) continue;
        Denial all = one;
        all.object += " and " + std::to_string(found->second.size() - 1) + " more names there";
        all.hint = std::string(option_of(one)) + shell_quote(std::string(containing(one.object)));
        all.count = 0;
        for (const Denial* each : found->second) all.count += each->count;
        lines.push_back(std::move(all));
    }
    return lines;
}

}  // namespace callgate
