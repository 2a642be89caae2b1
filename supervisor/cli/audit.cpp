// `callgate audit`: arguments for the readers of logs.
#include <cstdio>
#include <ext/stdio_sync_filebuf.h>
#include <ostream>
#include <sstream>

#include "base/number.hpp"
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

/// An option that belongs to another verb of `audit` is wrong use. A variable is ignored, because it may be
/// there for other commands.
void refuse_options(const Arguments& arguments, std::string_view verb,
                    std::initializer_list<std::string_view> names) {
    for (const std::string_view name : names)
        if (arguments.given(name))
            throw Failure("option " + arguments.origin(name) + " does not fit callgate audit " +
                          std::string(verb) + "; see callgate audit --help");
}

void refuse_rule_options(const Arguments& arguments, std::string_view verb) {
    refuse_options(arguments, verb,
                   {"rules", "profile", "rules-json", "no-user-rules", "read", "write", "execute", "deny",
                    "connect", "bind", "except", "default"});
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
        if (!start.config.empty()) context.config = start.config;
        context.earlier = &start.surroundings;
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
    if (verb != "report") refuse_options(arguments, verb, {"html", "markdown"});
    if (verb != "replay") refuse_rule_options(arguments, verb);
    const bool json = arguments.has("json");
    const audit::ShowOptions show{.log = {.state = state, .log = log},
                                  .filter = read_filter(arguments),
                                  .json = json,
                                  .colour = audit::colour_wanted(STDOUT_FILENO)};
    if (verb == "show") {
        refuse_options(arguments, verb, {"into", "format", "follow", "lines", "by", "head", "key", "keep"});
        return audit::show(standard_output(), errors, show);
    }
    if (verb == "tail") {
        refuse_options(arguments, verb, {"into", "format", "by", "head", "key", "keep"});
        return audit::tail(standard_output(), errors,
                           {.show = show, .lines = read_lines(arguments), .follow = arguments.has("follow")});
    }
    if (verb == "summary") {
        refuse_options(arguments, verb, {"into", "format", "follow", "lines", "head", "key", "keep"});
        return audit::summary(standard_output(), errors,
                              {.log = show.log,
                               .filter = show.filter,
                               .by = arguments.value("by").value_or("rule"),
                               .json = json});
    }
    if (verb == "export") {
        refuse_options(arguments, verb, {"into", "follow", "lines", "by", "head", "key", "keep", "json"});
        return audit::export_log(
            standard_output(), errors,
            {.log = show.log, .filter = show.filter, .format = arguments.value("format").value_or("")});
    }
    refuse_options(arguments, verb,
                   {"format", "follow", "lines", "by", "verdict", "operation", "rule", "object", "program",
                    "tree", "since", "until"});
    refuse_options(arguments, verb,
                   verb == "verify"  ? std::initializer_list<std::string_view>{"keep"}
                   : verb == "prune" ? std::initializer_list<std::string_view>{"head", "key"}
                                     : std::initializer_list<std::string_view>{"head", "key", "keep"});
    if (verb != "suggest") refuse_options(arguments, verb, {"into"});
    if (verb == "replay") return replay(arguments, show.log, places, errors);
    if (verb == "report") {
        refuse_options(arguments, verb, {"json"});
        return report(arguments, show.log, errors);
    }
    if (verb == "suggest") {
        const audit::SuggestOptions options{.state = state,
                                            .logs = {arguments.rest().begin() + 1, arguments.rest().end()},
                                            .home = places.home,
                                            .rules_for = {},
                                            .taken = {}};
        if (const auto file = arguments.value("into")) return suggest_into(*file, options, places, errors);
        return audit::suggest(standard_output(), errors, options);
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
    constexpr std::string_view known[] = {"show",   "tail", "summary", "verify", "replay", "suggest",
                                          "report", "ls",   "last",    "prune",  "export"};
    if (std::find(std::begin(known), std::end(known), verb) == std::end(known)) {
        const std::string near = suggestion(verb, known);
        throw Failure("unknown verb callgate audit " + verb +
                      (near.empty() ? "; see callgate audit --help" : near));
    }
    std::ostringstream errors;
    const int status = dispatch_audit(arguments, verb, errors);
    standard_output().flush();
    if (!standard_output()) throw Failure("cannot write to standard output");
    std::string text = errors.str();
    while (text.ends_with('\n')) text.pop_back();
    for (std::size_t begin = 0; begin < text.size();) {
        const std::size_t end = std::min(text.find('\n', begin), text.size());
        say(text.substr(begin, end - begin));
        begin = end + 1;
    }
    return status;
}

}  // namespace callgate::cli
