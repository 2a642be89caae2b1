// `callgate audit`: arguments for the readers of logs.
#include <algorithm>
#include <array>
#include <cstdio>
#include <ext/stdio_sync_filebuf.h>
#include <ostream>
#include <sstream>

#include "base/number.hpp"
#include "base/words.hpp"
#include "supervisor/approval/recorded_answers.hpp"
#include "supervisor/audit/report/report.hpp"
#include "supervisor/audit/verbs/export.hpp"
#include "supervisor/audit/verbs/prune.hpp"
#include "supervisor/audit/verbs/replay.hpp"
#include "supervisor/audit/verbs/show.hpp"
#include "supervisor/audit/verbs/suggest.hpp"
#include "supervisor/audit/verbs/verify.hpp"
#include "supervisor/cli/failure.hpp"
#include "supervisor/cli/rule_options.hpp"
#include "supervisor/cli/rule_text.hpp"
#include "supervisor/cli/run_setup.hpp"
#include "supervisor/cli/suggest_into.hpp"
#include "supervisor/cli/verbs.hpp"
#include "supervisor/host/host.hpp"

#include <unistd.h>

namespace callgate::cli {

namespace {

/// Stands in for std::cout: its header would make every start initialise all standard streams (0.1 ms).
std::ostream& standard_output() {
    static __gnu_cxx::stdio_sync_filebuf<char> buffer(stdout);
    static std::ostream stream(&buffer);
    return stream;
}

audit::Filter read_filter(const Arguments& arguments) {
    audit::Filter filter;
    filter.verdict = arguments.value("verdict").value_or("");
    filter.operation = arguments.value("operation").value_or("");
    filter.rule = arguments.value("rule").value_or("");
    filter.object = arguments.value("object").value_or("");
    filter.program = arguments.value("program").value_or("");
    filter.tree = arguments.value("tree").value_or("");
    filter.since = arguments.value("since").value_or("");
    filter.until = arguments.value("until").value_or("");
    return filter;
}

std::size_t read_lines(const Arguments& arguments) {
    const std::optional<std::string> value = arguments.value("lines");
    if (!value) return audit::TailOptions{}.lines;
    const auto lines = parse_number<std::size_t>(*value);
    if (!lines) throw Failure(arguments.origin("lines") + " " + *value + ": expected a number such as 50");
    return *lines;
}

/// An audit verb, and the options that fit it.
struct AuditVerb {
    std::string_view name;
    std::string_view options;  // separated by spaces
    bool filters = false;      // those that choose records, too
};
constexpr std::string_view filters = "verdict operation rule object program tree since until";
constexpr std::array audit_verbs = {
    AuditVerb{"show", "json", true},
    AuditVerb{"tail", "json follow lines", true},
    AuditVerb{"summary", "json by", true},
    AuditVerb{"export", "format", true},
    AuditVerb{"verify", "json head key"},
    AuditVerb{
        "replay",
        "json rules profile rules-json no-user-rules read write execute deny connect bind except default"},
    AuditVerb{"suggest", "json into"},
    AuditVerb{"report", "html markdown"},
    AuditVerb{"ls", "json"},
    AuditVerb{"last", "json"},
    AuditVerb{"prune", "json keep"},
};

/// An option that belongs to another verb of `audit` is wrong use. A variable is ignored, because it may be
/// there for other commands.
void refuse_other_options(const Arguments& arguments, const AuditVerb& verb) {
    for (const OptionSpec* option : options(*find_verb("audit")))
        if (arguments.given(option->name) && !has_word(verb.options, option->name) &&
            !(verb.filters && has_word(filters, option->name)))
            throw Failure("option " + arguments.origin(option->name) + " does not fit callgate audit " +
                          std::string(verb.name) + "; see callgate audit --help");
}

audit::VerifyOptions read_verify(const Arguments& arguments, const audit::LogChoice& log) {
    audit::VerifyOptions options{.log = log, .json = arguments.has("json")};
    if (const auto head = arguments.value("head")) {
        const std::string_view digits = *head;
        constexpr std::string_view kind = "sha256:";
        options.head = audit::ChainHash::parse(digits.substr(digits.starts_with(kind) ? kind.size() : 0));
        if (!options.head)
            throw Failure(arguments.origin("head") + " " + *head +
                          ": expected 64 hex digits, as audit.head in the report");
    }
    if (const auto file = arguments.value("key")) {
        auto key = audit::VerifyingKey::load(*file);
        if (!key) throw Failure(arguments.origin("key") + ": " + key.error().text);
        options.key = std::move(*key);
    }
    return options;
}

int replay(const Arguments& arguments, const audit::LogChoice& log, const Places& places,
           std::ostream& errors) {
    if (!arguments.has("rules") && !arguments.has("profile") && !arguments.has("rules-json"))
        throw Failure(
            "callgate audit replay needs the rules to judge the log by; give --rules FILE or --profile NAME");
    // The built-in rules are left out, and records of them are skipped: replay compares the user's rules.
    const auto rules_for = [&](const audit::RecordedRequest& start) {
        const TreeWithTmp tree(start.temporary_directory);
        rules::LoadContext context = host_context(places, start.workdir, start.temporary_directory, tree);
        if (!start.home.empty()) context.home = start.home;
        context.user_home = start.user_home;
        if (!start.config.empty()) context.config = start.config;
        context.earlier = &start.snapshot;
        CompiledRules compiled =
            compile_rules(arguments, places, context,
                          {.own_files = {}, .warnings = false, .reasons = false, .built_in = false});
        return audit::ReplayRules{std::move(compiled.loaded.rules), std::move(compiled.loaded.sha256)};
    };
    approval::RecordedAnswers answers;
    return audit::replay(
        standard_output(), errors,
        {.log = log, .json = arguments.has("json"), .answers = answers, .rules_for = rules_for});
}

int prune(const Arguments& arguments, const std::string& state, std::ostream& errors) {
    const std::optional<std::string> keep = arguments.value("keep");
    if (!keep) throw Failure("callgate audit prune needs --keep AGE, such as --keep 30d");
    const std::optional<std::chrono::seconds> age = audit::parse_age(*keep);
    if (!age) throw Failure(arguments.origin("keep") + " " + *keep + ": expected an age such as 30d or 12h");
    return audit::prune(standard_output(), errors, {.state = state, .keep = *age});
}

int report(const Arguments& arguments, const audit::LogChoice& log, std::ostream& errors) {
    const audit::ReportOptions options{
        .log = log, .html = arguments.value("html"), .markdown = arguments.value("markdown")};
    if (!options.html && !options.markdown)
        throw Failure(
            "callgate audit report needs a form: --html FILE for a page, --markdown for a pull request");
    if (options.html && options.html == options.markdown)
        throw Failure("--html and --markdown cannot both go to " +
                      (*options.html == "-" ? "standard output" : *options.html));
    return audit::make_report(standard_output(), errors, options);
}

int dispatch_audit(const Arguments& arguments, const std::string& verb, std::ostream& errors) {
    const std::string log = arguments.rest().size() > 1 ? arguments.rest()[1] : "";
    const Places places = find_places();
    const std::string& state = places.state;
    if (arguments.rest().size() > 2 && verb != "suggest")
        throw Failure("callgate audit " + verb + " takes one log; see callgate audit --help");
    const bool json = arguments.has("json");
    const audit::ShowOptions show{.log = {.state = state, .log = log},
                                  .filter = read_filter(arguments),
                                  .json = json,
                                  .colour = audit::colour_wanted(STDOUT_FILENO)};
    if (verb == "show") return audit::show(standard_output(), errors, show);
    if (verb == "tail" && arguments.has("follow") && log.empty()) make_state_directory(state, "");
    if (verb == "tail")
        return audit::tail(standard_output(), errors,
                           {.show = show, .lines = read_lines(arguments), .follow = arguments.has("follow")});
    if (verb == "summary")
        return audit::summary(standard_output(), errors,
                              {.log = show.log,
                               .filter = show.filter,
                               .by = arguments.value("by").value_or("rule"),
                               .json = json});
    if (verb == "export")
        return audit::export_log(
            standard_output(), errors,
            {.log = show.log, .filter = show.filter, .format = arguments.value("format").value_or("")});
    if (verb == "replay") return replay(arguments, show.log, places, errors);
    if (verb == "report") return report(arguments, show.log, errors);
    if (verb == "suggest") {
        const audit::SuggestOptions options{
            .state = state,
            .logs = {arguments.rest().begin() + 1, arguments.rest().end()},
            .home = places.home,
            .account_home = places.account_home,
            .rules_for = {},
            .guard_for = [&places](const std::string& workdir,
                                   const std::string& tmp) { return base_rules(places, workdir, tmp); },
            .taken = {}};
        if (const auto file = arguments.value("into")) return suggest_into(*file, options, places, errors);
        const audit::Suggested found = audit::suggest(errors, options);
        standard_output() << found.rule_set;
        return found.status;
    }
    if (verb == "verify") return audit::verify(standard_output(), errors, read_verify(arguments, show.log));
    if (!log.empty()) throw Failure("callgate audit " + verb + " takes no log; it reads the state directory");
    if (verb == "prune") return prune(arguments, state, errors);
    if (verb == "ls") return audit::list(standard_output(), errors, {.state = state, .json = json});
    return audit::last(standard_output(), errors, state);
}

}  // namespace

int audit_log(const Arguments& arguments) {
    const std::string& verb = arguments.rest()[0];
    const auto* const known = std::ranges::find(audit_verbs, verb, &AuditVerb::name);
    if (known == audit_verbs.end()) {
        std::vector<std::string_view> names;
        for (const AuditVerb& one : audit_verbs) names.push_back(one.name);
        const std::string near = suggestion(verb, names);
        throw Failure("unknown verb callgate audit " + verb +
                      (near.empty() ? "; see callgate audit --help" : near));
    }
    refuse_other_options(arguments, *known);
    std::ostringstream errors;
    const int status = dispatch_audit(arguments, verb, errors);
    standard_output().flush();
    if (!standard_output()) throw Failure("cannot write to standard output");
    std::string text = errors.str();
    while (text.ends_with('\n')) text.pop_back();
    if (text.empty()) return status;
    for (const std::string& line : split(text, '\n')) say(line);
    return status;
}

}  // namespace callgate::cli
