// `callgate audit`: arguments for the readers of logs.
#include <charconv>
#include <iostream>
#include <sstream>

#include "supervisor/audit/show.hpp"
#include "supervisor/cli/failure.hpp"
#include "supervisor/cli/verbs.hpp"
#include "supervisor/machine.hpp"

#include <unistd.h>

namespace callgate::cli {

namespace {

audit::Filter read_filter(const Arguments& arguments) {
    audit::Filter filter;
    filter.verdict = arguments.value("verdict").value_or("");
    filter.operation = arguments.value("operation").value_or("");
    filter.rule = arguments.value("rule").value_or("");
    filter.object = arguments.value("object").value_or("");
    filter.program = arguments.value("program").value_or("");
    filter.since = arguments.value("since").value_or("");
    filter.until = arguments.value("until").value_or("");
    return filter;
}

std::size_t read_lines(const Arguments& arguments) {
    const std::optional<std::string> value = arguments.value("lines");
    if (!value) return audit::TailOptions{}.lines;
    std::size_t lines = 0;
    const auto [end, error] = std::from_chars(value->data(), value->data() + value->size(), lines);
    if (error != std::errc{} || end != value->data() + value->size())
        throw Failure(arguments.origin("lines") + " " + *value + ": expected a number such as 50");
    return lines;
}

/// Options that only another verb of `audit` has are wrong use, not ignored.
void refuse_options(const Arguments& arguments, std::string_view verb,
                    std::initializer_list<std::string_view> names) {
    for (const std::string_view name : names)
        if (arguments.has(name))
            throw Failure("option " + arguments.origin(name) + " does not fit callgate audit " +
                          std::string(verb) + "; see callgate audit --help");
}

int dispatch_audit(const Arguments& arguments, const std::string& verb, std::ostream& errors) {
    const std::string log = arguments.rest().size() > 1 ? arguments.rest()[1] : "";
    const std::string state = find_places().state;
    const bool json = arguments.has("json");
    const audit::ShowOptions show{.log = {.state = state, .log = log},
                                  .filter = read_filter(arguments),
                                  .json = json,
                                  .colour = audit::colour_wanted(STDOUT_FILENO)};
    if (verb == "show") {
        refuse_options(arguments, verb, {"follow", "lines", "by"});
        return audit::show(std::cout, errors, show);
    }
    if (verb == "tail") {
        refuse_options(arguments, verb, {"by"});
        return audit::tail(std::cout, errors,
                           {.show = show, .lines = read_lines(arguments), .follow = arguments.has("follow")});
    }
    if (verb == "summary") {
        refuse_options(arguments, verb, {"follow", "lines"});
        return audit::summary(std::cout, errors,
                              {.log = show.log,
                               .filter = show.filter,
                               .by = arguments.value("by").value_or("rule"),
                               .json = json});
    }
    refuse_options(
        arguments, verb,
        {"follow", "lines", "by", "verdict", "operation", "rule", "object", "program", "since", "until"});
    if (!log.empty()) throw Failure("callgate audit " + verb + " takes no log; it reads the state directory");
    if (verb == "ls") return audit::list(std::cout, errors, {.state = state, .json = json});
    return audit::last(std::cout, errors, state);
}

}  // namespace

int audit_log(const Arguments& arguments) {
    const std::string& verb = arguments.rest()[0];
    for (const std::string_view missing : missing_audit_verbs())
        if (verb == missing)
            throw Failure("callgate audit " + verb + " is not in this version; see callgate audit --help");
    constexpr std::string_view known[] = {"show", "tail", "summary", "ls", "last"};
    if (std::find(std::begin(known), std::end(known), verb) == std::end(known)) {
        const std::string near = suggestion(verb, known);
        throw Failure("unknown verb callgate audit " + verb +
                      (near.empty() ? "; see callgate audit --help" : near));
    }
    std::ostringstream errors;
    const int status = dispatch_audit(arguments, verb, errors);
    std::cout.flush();
    if (!std::cout) throw Failure("cannot write to standard output");
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
