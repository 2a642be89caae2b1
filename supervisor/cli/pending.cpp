// `callgate rules` lists the rules that answers proposed, adds them to the user's own rule set, and takes
// rules out of it.
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>

#include "base/escape.hpp"
#include "base/words.hpp"
#include "supervisor/approval/terminal/proposal.hpp"
#include "supervisor/cli/failure.hpp"
#include "supervisor/cli/rule_options.hpp"
#include "supervisor/cli/rule_text.hpp"
#include "supervisor/cli/verbs.hpp"

namespace callgate::cli {

namespace {

using approval::Pending;

Pending require_pending(const std::string& config, const std::string& name) {
    for (Pending& one : approval::pending_rules(config))
        if (one.name == name) return std::move(one);
    throw Failure("no pending rule " + name + "; callgate rules pending lists them");
}

std::string own_rules_file(const Places& places) { return places.config + "/rules.json"; }

/// The user's own rule set; nothing if there is none.
std::optional<std::string> own_rules(const Places& places) {
    const std::string file = own_rules_file(places);
    if (::access(file.c_str(), F_OK) != 0) return std::nullopt;
    auto text = read_regular_file(file, max_rule_file);
    if (!text) throw Failure(file + " " + text.error().text);
    return std::move(*text);
}

/// Writes the rule set if it is good, and shows the difference.
void put_own_rules(const Places& places, const std::string& before, const std::string& after) {
    const std::string file = own_rules_file(places);
    if (const auto good = check_rules(places, after, file); !good)
        throw Failure("the rule set would not be valid any more: " + good.error().text +
                      "; nothing was changed");
    replace_rule_file(file, after);
    print(terminal_safe(file) + "\n" + difference(before, after));
}

std::vector<std::string> rules_of(const std::string& file, const std::string& text) {
    auto all = approval::rules_in(text);
    if (!all) throw Failure(file + " has no list of rules; callgate check says what is wrong with it");
    return std::move(*all);
}

/// The rule's own id, or "#2" for the second rule if it has none.
std::string id_of(const std::string& rule, std::size_t index) {
    const nlohmann::json parsed = nlohmann::json::parse(rule, nullptr, false, true);
    const auto id = parsed.is_object() ? parsed.find("id") : parsed.end();
    if (id != parsed.end() && id->is_string()) return id->get<std::string>();
    return "#" + std::to_string(index + 1);
}

std::string on_one_line(const std::string& rule) {
    std::string text;
    for (const std::string& line : split(rule, '\n')) {
        const std::size_t first = line.find_first_not_of(" \t\r");
        if (first == std::string::npos) continue;
        text += (text.empty() ? "" : " ") + line.substr(first, line.find_last_not_of(" \t\r") + 1 - first);
    }
    return text;
}

int list(const Places& places) {
    const std::vector<std::string> all =
        rules_of(own_rules_file(places), own_rules(places).value_or(R"({"rules":[]})"));
    if (all.empty()) say("no rules of your own in " + own_rules_file(places));
    for (std::size_t index = 0; index < all.size(); ++index)
        print(terminal_safe(id_of(all[index], index) + "  " + on_one_line(all[index])) + "\n");
    return 0;
}

int remove(const Places& places, const std::string& name) {
    const std::string file = own_rules_file(places);
    const auto before = own_rules(places);
    if (!before) throw Failure("there is no rule " + name + ": " + file + " does not exist");
    const std::vector<std::string> all = rules_of(file, *before);
    std::vector<std::string> ids;
    for (std::size_t index = 0; index < all.size(); ++index) ids.push_back(id_of(all[index], index));
    const auto found = std::ranges::find(ids, name);
    if (found == ids.end()) {
        const std::string near = suggestion(name, std::vector<std::string_view>(ids.begin(), ids.end()));
        throw Failure("no rule " + name + " in " + file +
                      (near.empty() ? "; callgate rules list shows them" : near));
    }
    put_own_rules(places, *before,
                  approval::without_rule(*before, static_cast<std::size_t>(found - ids.begin())).value());
    return 0;
}

int list_pending(const Places& places) {
    const std::vector<Pending> all = approval::pending_rules(places.config);
    if (all.empty()) say("no pending rules; the answer r to a question proposes one");
    for (const Pending& one : all) print(one.name + "  " + terminal_safe(one.rule) + "\n");
    return 0;
}

int accept(const Places& places, const std::string& name) {
    const Pending pending = require_pending(places.config, name);
    const auto before = own_rules(places);
    const auto after = before ? approval::with_rule(*before, pending.rule)
                              : std::optional(approval::fresh_rule_set(pending.rule));
    if (!after) throw Failure(own_rules_file(places) + " has no list of rules to add one to");
    put_own_rules(places, before.value_or(""), *after);
    static_cast<void>(approval::drop_pending(places.config, name));
    return 0;
}

}  // namespace

int rules_verb(const Arguments& arguments) {
    const Places places = find_places();
    if (places.config.empty()) throw Failure("there is no directory for rules: HOME is not set");
    const std::vector<std::string>& words = arguments.rest();
    const bool named = words.size() > 1;
    if (words[0] == "list" && !named) return list(places);
    if (words[0] == "remove" && named) return remove(places, words[1]);
    if (words[0] == "pending" && !named) return list_pending(places);
    if (words[0] == "accept" && named) return accept(places, words[1]);
    if (words[0] == "drop" && named) {
        static_cast<void>(require_pending(places.config, words[1]));
        if (!approval::drop_pending(places.config, words[1]))
            throw Failure("cannot remove the pending rule " + words[1] + ": " + std::strerror(errno));
        return 0;
    }
    constexpr std::string_view known[] = {"list", "remove", "pending", "accept", "drop"};
    throw Failure("callgate rules " + words[0] +
                  ": expected list, remove ID, pending, accept NAME or drop NAME" +
                  suggestion(words[0], known));
}

}  // namespace callgate::cli
