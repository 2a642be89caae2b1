#include "supervisor/cli/suggest_into.hpp"

#include "base/escape.hpp"
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
        return rules_of_text(places, before, file, workdir, tmp);
    };
    const audit::Suggested found = audit::suggest(errors, options);
    if (found.status == audit::exit_wrong_use) return found.status;
    const std::string after = with_rules(places, before, found.rules, file);
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
