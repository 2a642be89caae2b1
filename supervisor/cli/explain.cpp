// `callgate explain`: one request through the same evaluator and plan that a run would use.
#include <unistd.h>

#include <cstdlib>
#include <span>

#include "base/words.hpp"
#include "rules/model/address.hpp"
#include "supervisor/cli/describe.hpp"
#include "supervisor/cli/environment.hpp"
#include "supervisor/cli/explanation.hpp"
#include "supervisor/cli/failure.hpp"
#include "supervisor/cli/verbs.hpp"

namespace callgate::cli {

namespace {

using rules::Operation;

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

/// Stands for whatever address a name has (RFC 6666): no name is looked up.
rules::IpAddress nobodys_address() {
    rules::IpAddress address{.bytes = {}, .v6 = true};
    address.bytes[0] = 0x01;
    return address;
}

/// "HOST:PORT[/udp]"; for bind also "PORT".
void read_endpoint(Question& question, const std::string& text) {
    const bool bind = question.operations.contains(Operation::bind);
    const bool bare =
        bind && text.find_first_not_of("0123456789") == text.find('/') && !text.starts_with('/');
    const auto target = rules::parse_destination(bare ? "0.0.0.0:" + text : text);
    const std::string expected =
        bind ? "PORT[/udp] or ADDRESS:PORT, such as 8080" : "HOST:PORT[/udp], unix:PATH or @name";
    if (!target) throw Failure("object " + text + ": " + target.error().text + "; expected " + expected);
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
        if (host.suffix) throw Failure("object " + text + ": one host is needed, not a pattern");
        question.host = {host.text};
        end.address = host.text == "localhost" ? rules::IpAddress{{127, 0, 0, 1}, false} : nobodys_address();
        end.names = question.host;
        question.note = "as an address that a look-up of " + host.text + " gave";
    }
    question.object = end;
    question.shown =
        end.names.empty() ? rules::text(end) : end.names.front() + ':' + std::to_string(end.port);
    if (end.protocol == rules::Protocol::udp) question.shown += "/udp";
}

void read_object(Question& question, const std::string& text, const rules::LoadContext& context) {
    if (!question.operations.intersects(rules::network_operations)) {
        question.name = absolute(substitute(text, context), context.home);
        question.shown = question.name;
        question.object = rules::FileObject{.path = question.name};
        return;
    }
    const bool path = text.starts_with("unix:") || text.starts_with("/");
    if (!path && !text.starts_with("@")) return read_endpoint(question, text);
    const std::string name = text.starts_with("unix:") ? text.substr(5) : text;
    question.name = name.starts_with("@") ? name : absolute(substitute(name, context), context.home);
    question.shown = question.name.starts_with("@") ? question.name : "unix:" + question.name;
    question.object = rules::UnixObject{.name = question.name};
}

/// Finds a program as a shell does: in PATH if its name has no slash.
std::string find_program(const std::string& name, const std::string& home) {
    const char* path = std::getenv("PATH");
    const std::vector<std::string> environment = {std::string("PATH=") + (path == nullptr ? "" : path)};
    for (const std::string& candidate : executable_candidates(name, environment))
        if (::access(candidate.c_str(), X_OK) == 0) return absolute(candidate, home);
    return absolute(name, home);
}

/// A program and its arguments, as they would stand in a shell.
void read_execution(Question& question, std::span<const std::string> words,
                    const rules::LoadContext& context) {
    const std::string name = substitute(words.front(), context);
    question.name = find_program(name, context.home);
    question.shown = question.name;
    question.object = rules::FileObject{.path = question.name};
    question.arguments = {words.begin(), words.end()};
    question.arguments_known = words.size() > 1;
    if (words.size() > 1) question.note = "with the arguments " + joined(words.subspan(1), " ");
}

/// Fills `question` in place, because its object refers to its own bytes.
void read_question(Question& question, const Arguments& arguments, const rules::LoadContext& context) {
    std::span<const std::string> words = arguments.rest();
    const std::string usage = "; usage: callgate explain [OPTIONS] OPERATION OBJECT [ARG...] [by PROGRAM]";
    if (words.size() < 2) throw Failure("an argument is missing" + usage);
    question.operations = read_operations(words[0]);
    words = words.subspan(1);
    if (words.size() > 2 && words[words.size() - 2] == "by") {
        question.program = find_program(words.back(), context.home);
        words = words.first(words.size() - 2);
    }
    if (question.operations == rules::OperationSet{Operation::execute})
        return read_execution(question, words, context);
    if (words.size() > 1) throw Failure("expected \"by PROGRAM\" after the object, not " + words[1] + usage);
    read_object(question, words.front(), context);
}

}  // namespace

int explain(const Arguments& arguments) {
    if (arguments.has("from-log")) return explain_record(arguments);
    const Inspection inspection(arguments);
    Question question;
    read_question(question, arguments, inspection.context());
    const CompiledRules compiled = inspection.compile();  // the answer refers to its rules
    const Answer answer = answer_question(question, compiled);
    print(arguments.has("json") ? as_json(question, answer) + "\n" : as_text(question, answer));
    return 0;
}

}  // namespace callgate::cli
