// `callgate explain`: one request through the same evaluator and plan that a run would use.
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "rules/address.hpp"
#include "supervisor/audit/escape.hpp"
#include "supervisor/audit/show.hpp"
#include "supervisor/cli/describe.hpp"
#include "supervisor/cli/environment.hpp"
#include "supervisor/cli/failure.hpp"
#include "supervisor/cli/json_text.hpp"
#include "supervisor/cli/rule_options.hpp"
#include "supervisor/cli/verbs.hpp"
#include "supervisor/report.hpp"

namespace callgate::cli {

namespace {

using rules::Operation;

/// The request, and the bytes that it looks at.
struct Question {
    rules::OperationSet operations;
    std::string name;   // of a file or a unix socket
    std::string shown;  // the object as text
    std::string note;   // what a name stood for
    std::string program;
    rules::Object object;

    [[nodiscard]] rules::Request request() const {
        return {.operations = operations, .object = object, .program = program, .arguments = {}};
    }
};

rules::OperationSet read_operations(const std::string& word) {
    if (const auto operations = rules::parse_operations(word)) return *operations;
    constexpr std::string_view words[] = {"read",     "write",   "modify",  "create", "delete",
                                          "metadata", "execute", "connect", "bind"};
    const std::string near = suggestion(word, words);
    throw Failure("unknown operation " + word +
                  (near.empty()
                       ? "; expected read, write, modify, create, delete, metadata, execute, connect or bind"
                       : near));
}

std::string substitute(std::string path, const rules::LoadContext& context) {
    const std::pair<std::string_view, const std::string*> variables[] = {{"${workdir}", &context.workdir},
                                                                         {"${tmp}", &context.tmp},
                                                                         {"${home}", &context.home},
                                                                         {"${config}", &context.config}};
    for (const auto& [name, value] : variables)
        if (path.starts_with(name)) return *value + path.substr(name.size());
    return path;
}

/// "HOST:PORT[/udp]"; for bind also "PORT".
void read_endpoint(Question& question, const std::string& text, const rules::LoadContext& context) {
    const bool bind = question.operations.contains(Operation::bind);
    const bool bare =
        bind && text.find_first_not_of("0123456789") == text.find('/') && !text.starts_with('/');
    std::string error;
    const auto target = rules::parse_destination(bare ? "0.0.0.0:" + text : text, error);
    const std::string expected =
        bind ? "PORT[/udp] or ADDRESS:PORT, such as 8080" : "HOST:PORT[/udp], unix:PATH or @name";
    if (!target) throw Failure("object " + text + ": " + error + "; expected " + expected);
    if (!target->port || target->port->first != target->port->last)
        throw Failure("object " + text + ": one port is needed; expected " + expected);
    rules::Endpoint end;
    end.port = target->port->first;
    end.protocol = target->protocol.value_or(rules::Protocol::tcp);
    if (const auto* block = std::get_if<rules::Cidr>(&target->host)) {
        if (block->prefix != (block->address.v6 ? 128 : 32))
            throw Failure("object " + text + ": one address is needed, not a block");
        end.address = block->address;
    } else {
        const rules::HostPattern& host = std::get<rules::HostPattern>(target->host);
        const auto addresses = host.suffix ? std::vector<rules::IpAddress>{} : context.resolve(host.text);
        if (addresses.empty())
            throw Failure("object " + text + ": the name " + host.text + " has no address");
        end.address = addresses[0];
        question.note = host.text + " is " + rules::text(addresses[0]) +
                        (addresses.size() > 1 ? ", the first of " + std::to_string(addresses.size()) : "");
    }
    question.object = end;
    question.shown = rules::text(end) + (end.protocol == rules::Protocol::udp ? "/udp" : "");
}

void read_object(Question& question, const std::string& text, const rules::LoadContext& context) {
    if (!question.operations.intersects(rules::network_operations)) {
        question.name = absolute(substitute(text, context), context.home);
        question.shown = question.name;
        question.object = rules::FileObject{.path = question.name};
        return;
    }
    const bool path = text.starts_with("unix:") || text.starts_with("/");
    if (!path && !text.starts_with("@")) return read_endpoint(question, text, context);
    const std::string name = text.starts_with("unix:") ? text.substr(5) : text;
    question.name = name.starts_with("@") ? name : absolute(substitute(name, context), context.home);
    question.shown = question.name.starts_with("@") ? question.name : "unix:" + question.name;
    question.object = rules::UnixObject{.name = question.name};
}

/// A program as a shell would find it: in PATH where its name has no slash.
std::string find_program(const std::string& name, const std::string& home) {
    const char* path = std::getenv("PATH");
    const std::vector<std::string> environment = {std::string("PATH=") + (path == nullptr ? "" : path)};
    for (const std::string& candidate : executable_candidates(name, environment))
        if (::access(candidate.c_str(), X_OK) == 0) return absolute(candidate, home);
    return absolute(name, home);
}

/// Fills `question` in place: its object looks at its own bytes.
void read_question(Question& question, const Arguments& arguments, const rules::LoadContext& context) {
    const std::vector<std::string>& words = arguments.rest();
    if (words.size() == 3 || (words.size() == 4 && words[2] != "by"))
        throw Failure("expected \"by PROGRAM\" after the object, not " + words[2] +
                      "; usage: callgate explain [OPTIONS] OPERATION OBJECT [by PROGRAM]");
    question.operations = read_operations(words[0]);
    if (words.size() == 4) question.program = find_program(words[3], context.home);
    read_object(question, words[1], context);
}

struct Answer {
    rules::Verdict verdict;
    bool kernel = false;
    std::string tier;  // why it is decided there
    std::vector<const rules::Rule*> also;
    std::vector<const rules::Rule*> by_arguments;  // may decide otherwise: an explanation has none
    std::string hint;
};

/// Where the decision falls: what is not trapped, the kernel holds alone.
void find_tier(Answer& answer, const Question& question, const rules::Plan& plan) {
    const bool allowed = answer.verdict.action == rules::Action::allow;
    const bool file = std::holds_alternative<rules::FileObject>(question.object);
    if (!plan.trapped.intersects(question.operations)) {
        answer.kernel = true;
        answer.tier = allowed ? "the kernel allows it alone; callgate is not asked"
                              : "the kernel denies it alone; callgate is not asked";
        return;
    }
    constexpr rules::OperationSet never{Operation::metadata, Operation::connect, Operation::bind};
    if (allowed && question.operations.contains(Operation::execute) && plan.trap_only_execute) {
        answer.tier = "callgate decides each call, and again on what then runs";
        return;
    }
    if (allowed && file && !question.operations.intersects(never) &&
        rules::StaticGrants(plan).allow(question.operations, question.name) &&
        !(plan.trap_only && question.operations.contains(Operation::read))) {
        answer.kernel = true;
        answer.tier = "Landlock allows it; the call is seen and goes on as it is";
        return;
    }
    answer.tier = allowed ? "callgate decides each call and performs it" : "callgate decides each call";
}

void find_rules_by_arguments(Answer& answer, const Question& question, const rules::RuleSet& rules) {
    if (!question.operations.contains(Operation::execute)) return;
    for (const rules::Rule& rule : rules.rules()) {
        if (!rule.operations.contains(Operation::execute) || !rule.when.argv) continue;
        const std::vector<rules::Glob>& paths = rule.when.path;
        if (paths.empty() || std::any_of(paths.begin(), paths.end(),
                                         [&](const rules::Glob& one) { return one.matches(question.name); }))
            answer.by_arguments.push_back(&rule);
    }
}

Answer answer_question(const Question& question, const CompiledRules& compiled) {
    Answer answer;
    const rules::Request request = question.request();
    answer.verdict = compiled.loaded.rules->evaluate(request);
    find_tier(answer, question, compiled.plan);
    for (const Operation operation : question.operations) {
        for (const rules::Rule* rule : compiled.loaded.rules->matching(request, operation))
            if (rule != answer.verdict.rule &&
                std::find(answer.also.begin(), answer.also.end(), rule) == answer.also.end())
                answer.also.push_back(rule);
    }
    find_rules_by_arguments(answer, question, *compiled.loaded.rules);
    if (answer.verdict.action == rules::Action::allow) return answer;
    audit::Decision decision;
    decision.operation = answer.verdict.operation;
    decision.operations = question.operations;
    decision.object = question.object;
    decision.verdict = answer.verdict;
    answer.hint = hint(decision, *compiled.loaded.rules);
    return answer;
}

std::string coloured(rules::Action action) {
    const std::string word(rules::name(action));
    if (!audit::colour_wanted(STDOUT_FILENO)) return word;
    const char* colour = action == rules::Action::allow ? "32" : action == rules::Action::ask ? "33" : "31";
    return std::string("\x1b[") + colour + "m" + word + "\x1b[0m";
}

std::string as_text(const Question& question, const Answer& answer) {
    const rules::Verdict& verdict = answer.verdict;
    std::string text = coloured(verdict.action) + " " + rules::names(question.operations) + " " +
                       audit::terminal_safe(question.shown) + "\n";
    const auto line = [&text](std::string_view title, const std::string& value) {
        text += "  " + std::string(title) + std::string(6 - title.size(), ' ') + audit::terminal_safe(value) +
                "\n";
    };
    if (!question.note.empty()) line("note", question.note);
    if (question.operations != rules::OperationSet{verdict.operation})
        line("by", "the strictest of these, " + std::string(rules::name(verdict.operation)));
    line("rule", verdict.rule == nullptr ? "default: no rule decides it" : describe(*verdict.rule));
    line("tier", std::string(answer.kernel ? "kernel: " : "contested: ") + answer.tier);
    for (const rules::Rule* rule : answer.also) line("also", describe(*rule));
    for (const rules::Rule* rule : answer.by_arguments)
        line("note", "where its argv matches, this rule decides too: " + describe(*rule));
    if (verdict.action == rules::Action::ask)
        line("note", "a run asks you (callgate approve), and denies it where nobody answers");
    if (!answer.hint.empty()) line("hint", "callgate run " + answer.hint);
    return text;
}

std::string as_json(const Question& question, const Answer& answer) {
    std::vector<std::string> also;
    for (const rules::Rule* rule : answer.also) also.push_back(rule_json(*rule));
    std::vector<std::string> by_arguments;
    for (const rules::Rule* rule : answer.by_arguments) by_arguments.push_back(rule_json(*rule));
    JsonObject object;
    object.add("verdict", rules::name(answer.verdict.action))
        .add("decided_by", rules::name(answer.verdict.decided_by))
        .add("operation", rules::name(answer.verdict.operation))
        .add("object", question.shown)
        .add("program", question.program)
        .raw("rule", answer.verdict.rule == nullptr ? "null" : rule_json(*answer.verdict.rule))
        .add("tier", answer.kernel ? "kernel" : "contested")
        .add("why", answer.tier)
        .raw("also", json_array(also))
        .raw("by_arguments", json_array(by_arguments))
        .add("hint", answer.hint);
    return object.text() + "\n";
}

}  // namespace

int explain(const Arguments& arguments) {
    const Inspection inspection(arguments);
    Question question;
    read_question(question, arguments, inspection.context());
    const CompiledRules compiled = inspection.compile();
    const Answer answer = answer_question(question, compiled);
    print(arguments.has("json") ? as_json(question, answer) : as_text(question, answer));
    return 0;
}

}  // namespace callgate::cli
