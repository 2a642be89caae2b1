#include "supervisor/cli/rule_text.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>
#include <variant>

#include "base/escape.hpp"
#include "base/process/replace_file.hpp"
#include "base/words.hpp"
#include "rules/load/loader.hpp"
#include "supervisor/approval/terminal/proposal.hpp"
#include "supervisor/cli/failure.hpp"
#include "supervisor/cli/rule_options.hpp"

namespace callgate::cli {

std::string difference(const std::string& before, const std::string& after) {
    const auto lines = [](const std::string& text) {
        std::vector<std::string> all = split(text, '\n');
        if (all.back().empty()) all.pop_back();
        return all;
    };
    const std::vector<std::string> old_lines = lines(before), new_lines = lines(after);
    std::size_t head = 0, tail = 0;
    const std::size_t common = std::min(old_lines.size(), new_lines.size());
    while (head < common && old_lines[head] == new_lines[head]) ++head;
    while (tail < common - head &&
           old_lines[old_lines.size() - 1 - tail] == new_lines[new_lines.size() - 1 - tail])
        ++tail;
    // Lines between them that both have stay, unless the table for that would be too large.
    const std::size_t rows = old_lines.size() - tail - head, columns = new_lines.size() - tail - head;
    constexpr std::size_t max_cells = 1U << 22;
    const bool small = rows * columns <= max_cells;
    std::vector<std::size_t> common_below(small ? (rows + 1) * (columns + 1) : 0);
    const auto below = [&](std::size_t row, std::size_t column) -> std::size_t& {
        return common_below[row * (columns + 1) + column];
    };
    for (std::size_t row = small ? rows : 0; row-- > 0;)
        for (std::size_t column = columns; column-- > 0;)
            below(row, column) = old_lines[head + row] == new_lines[head + column]
                                     ? below(row + 1, column + 1) + 1
                                     : std::max(below(row + 1, column), below(row, column + 1));
    std::string text;
    std::size_t row = 0, column = 0;
    while (row < rows || column < columns) {
        if (small && row < rows && column < columns && old_lines[head + row] == new_lines[head + column]) {
            ++row, ++column;
        } else if (row < rows &&
                   (!small || column == columns || below(row + 1, column) >= below(row, column + 1))) {
            text += "- " + terminal_safe(old_lines[head + row++]) + "\n";
        } else {
            text += "+ " + terminal_safe(new_lines[head + column++]) + "\n";
        }
    }
    return text;
}

namespace {

rules::LoadedRules load_one(const Places& places, const rules::RuleSources& sources,
                            const std::string& workdir, const std::string& tmp) {
    const TreeWithTmp tree(tmp);
    return rules::load(sources, host_context(places, workdir, tmp, tree));
}

rules::RuleSources only(
    std::variant<rules::RuleSources::File, rules::RuleSources::Profile, rules::RuleSources::Text> part) {
    rules::RuleSources sources;
    sources.parts.push_back(std::move(part));
    return sources;
}

}  // namespace

std::shared_ptr<const rules::RuleSet> base_rules(const Places& places, const std::string& workdir,
                                                 const std::string& tmp) {
    rules::LoadedRules base = load_one(places, only(rules::RuleSources::Profile{"base"}), workdir, tmp);
    if (!base.ok()) throw Failure("the profile base cannot be loaded; install callgate again");
    return base.rules;
}

std::shared_ptr<const rules::RuleSet> rules_of_text(const Places& places, const std::string& text,
                                                    const std::string& file, const std::string& workdir,
                                                    const std::string& tmp) {
    rules::LoadedRules loaded = load_one(places, only(rules::RuleSources::Text{text, file}), workdir, tmp);
    if (const auto good = loaded.first_error(); !good) throw Failure(good.error().text);
    return loaded.rules;
}

Expected<void> check_rules(const Places& places, const std::string& text, const std::string& file) {
    return load_one(places, only(rules::RuleSources::Text{text, file}), absolute(".", places.home),
                    private_directory_name("RUN"))
        .first_error();
}

std::string with_rules(const Places& places, const std::string& text, const std::vector<std::string>& rules,
                       const std::string& file) {
    std::string after = text;
    for (const std::string& rule : rules) {
        const std::optional<std::string> more = approval::with_rule(after, rule);
        if (!more) throw Failure(file + " has no list of rules to add one to; nothing was changed");
        after = *more;
    }
    if (const auto good = check_rules(places, after, file); !good)
        throw Failure("the rule set would not be valid any more: " + good.error().text +
                      "; nothing was changed");
    return after;
}

void refuse_link(const std::string& file) {
    if (is_link(file))
        throw Failure(file + " is a symbolic link to " + canonical(file) +
                      ", which is not followed; name that file, or put the rules there yourself");
}

void replace_rule_file(const std::string& file, const std::string& text) {
    struct stat before {};
    const bool exists = ::lstat(file.c_str(), &before) == 0;
    refuse_link(file);
    const mode_t mode = exists ? before.st_mode & 07777U : 0600;
    if (replace_file(file, text, mode)) return;
    throw Failure("cannot write " + file + ": " + std::strerror(errno));
}

}  // namespace callgate::cli
