// `callgate rules` lists the rules that answers proposed, and adds them to the user's own rule set.
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "base/escape.hpp"
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

int list(const Places& places) {
    for (const Pending& one : approval::pending_rules(places.config))
        print(one.name + "  " + terminal_safe(one.rule) + "\n");
    return 0;
}

int accept(const Places& places, const std::string& name) {
    const Pending pending = require_pending(places.config, name);
    const std::string file = places.config + "/rules.json";
    std::string before;
    std::optional<std::string> after = approval::fresh_rule_set(pending.rule);
    if (::access(file.c_str(), F_OK) == 0) {
        auto text = read_regular_file(file, max_rule_file);
        if (!text) throw Failure(file + " " + text.error().text);
        before = std::move(*text);
        after = approval::with_rule(before, pending.rule);
        if (!after) throw Failure(file + " has no list of rules to add one to");
    }
    if (const auto good = check_rules(places, *after, file); !good)
        throw Failure("the rule set would not be valid any more: " + good.error().text +
                      "; nothing was changed");
    replace_rule_file(file, *after);
    static_cast<void>(approval::drop_pending(places.config, name));
    print(terminal_safe(file) + "\n" + difference(before, *after));
    return 0;
}

}  // namespace

int rules_verb(const Arguments& arguments) {
    const Places places = find_places();
    if (places.config.empty()) throw Failure("there is no directory for rules: HOME is not set");
    const std::vector<std::string>& words = arguments.rest();
    const bool named = words.size() > 1;
    if (words[0] == "pending" && !named) return list(places);
    if (words[0] == "accept" && named) return accept(places, words[1]);
    if (words[0] == "drop" && named) {
        static_cast<void>(require_pending(places.config, words[1]));
        if (!approval::drop_pending(places.config, words[1]))
            throw Failure("cannot remove the pending rule " + words[1] + ": " + std::strerror(errno));
        return 0;
    }
    constexpr std::string_view known[] = {"pending", "accept", "drop"};
    throw Failure("callgate rules " + words[0] + ": expected pending, accept NAME or drop NAME" +
                  suggestion(words[0], known));
}

}  // namespace callgate::cli
