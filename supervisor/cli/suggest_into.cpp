#include "supervisor/cli/suggest_into.hpp"

#include "base/escape.hpp"
#include "rules/load/loader.hpp"
#include "supervisor/approval/terminal/proposal.hpp"
#include "supervisor/cli/failure.hpp"
#include "supervisor/cli/rule_options.hpp"
#include "supervisor/cli/rule_text.hpp"

namespace callgate::cli {

int suggest_into(const std::string& name, audit::SuggestOptions options, const Places& places,
                 std::ostream& errors) {
    const std::string file = own_name(written_out(name, places.home));
    auto text = read_regular_file(file, max_rule_file);
    if (!text) throw Failure(file + " " + text.error().text);
    const std::string before = std::move(*text);
    if (const auto good = check_rules(places, before, file); !good)
        throw Failure(good.error().text + "; nothing was changed");
    options.taken = before;
    options.rules_for = [&](const std::string& workdir, const std::string& tmp) {
        const TreeWithTmp tree(tmp);
        rules::LoadContext context = host_context(places, workdir, tmp, tree);
        rules::RuleSources sources;
        sources.parts.emplace_back(rules::RuleSources::Text{before, file});
        return rules::load(sources, context).rules;
    };
    const audit::Suggested found = audit::suggest_rules(errors, options);
    if (found.status == audit::exit_wrong_use) return found.status;
    std::string after = before;
    for (const std::string& rule : found.rules) {
        const std::optional<std::string> more = approval::with_rule(after, rule);
        if (!more) throw Failure(file + " has no list of rules to add one to; nothing was changed");
        after = *more;
    }
    if (const auto good = check_rules(places, after, file); !good)
        throw Failure("the rule set would not be valid any more: " + good.error().text +
                      "; nothing was changed");
    if (found.rules.empty()) {
        print("// nothing to add: " + terminal_safe(file) + " allows what was seen\n");
    } else {
        replace_rule_file(file, after);
        print(terminal_safe(file) + "\n" + difference(before, after));
    }
    print(found.for_a_person);
    return found.status;
}

}  // namespace callgate::cli
