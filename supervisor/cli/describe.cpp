#include "supervisor/cli/describe.hpp"

#include <utility>

#include "rules/model/address.hpp"
#include "supervisor/cli/failure.hpp"
#include "supervisor/cli/lasting_home.hpp"

namespace callgate::cli {

namespace {

/// The private directory of a run that does not exist; "RUN" is no run's name.
std::string spoken_directory() { return private_directory_name("RUN"); }

std::string source_text(const rules::Source& source) {
    return source.line == 0 ? source.file : source.file + ":" + std::to_string(source.line);
}

void join(std::string& text, std::string_view word) {
    if (!text.empty()) text += ' ';
    text += word;
}

}  // namespace

Inspection::Inspection(const Arguments& arguments)
    : arguments_(arguments), places_(find_places()), tree_(spoken_directory()) {
    const std::string workdir = choose_workdir(arguments, places_, false);
    if (!arguments.has("workdir") && is_wide(workdir, places_))
        say("note: callgate run refuses this work directory unless --workdir names it");
    context_ = host_context(places_, workdir, spoken_directory(), tree_);
    if (const std::string text = describe(choose_repository(context_, places_), workdir); !text.empty())
        say("note: " + text);
    take_home();
}

/// A lasting home is not made here, and what leads to it is looked at when a run starts.
void Inspection::take_home() {
    LinkedPaths ignored;
    const LastingHome home = choose_lasting_home(arguments_, places_, context_.workdir, ignored);
    if (!home.path.empty()) context_.user_home = std::exchange(context_.home, home.path);
}

Inspection::Inspection(const Arguments& arguments, const std::string& workdir, const std::string& tmp)
    : arguments_(arguments), places_(find_places()), tree_(tmp.empty() ? spoken_directory() : tmp) {
    const bool named = arguments.has("workdir") || workdir.empty();
    context_ = host_context(places_, named ? choose_workdir(arguments, places_, false) : workdir,
                            tmp.empty() ? spoken_directory() : tmp, tree_);
    static_cast<void>(choose_repository(context_, places_));
    take_home();
}

CompiledRules Inspection::compile() const { return compile_rules(arguments_, places_, context_, {}); }

std::string subject(const rules::Conditions& when) {
    std::string text;
    for (const rules::Glob& glob : when.path) join(text, glob.text());
    for (const rules::HostPattern& host : when.host) join(text, host.text);
    for (const rules::Cidr& block : when.address) join(text, rules::text(block));
    for (const rules::PortRange& ports : when.port) join(text, "port " + rules::text(ports));
    if (when.run_server) join(text, "server run");
    if (when.protocol.tcp) join(text, "tcp");
    if (when.protocol.udp) join(text, "udp");
    if (when.protocol.stream) join(text, "stream");
    if (when.protocol.datagram) join(text, "datagram");
    for (const rules::Glob& glob : when.unix_socket) join(text, "unix:" + glob.text());
    if (when.argv) {
        std::string words;
        for (const rules::Glob& glob : *when.argv) join(words, glob.text());
        join(text, "argv " + words);
    }
    for (const rules::Glob& glob : when.program) join(text, "by " + glob.text());
    if (when.party) join(text, "party " + std::string(rules::name(*when.party)));
    return text;
}

namespace {

std::string operations_of(const rules::Rule& rule) {
    return rule.links ? "create links" : rules::names(rule.operations);
}

}  // namespace

std::string describe(const rules::Rule& rule) {
    constexpr std::size_t shown = 60;  // bytes of the subject; a rule of twenty patterns is cut
    std::string what = subject(rule.when);
    if (what.size() > shown) what = what.substr(0, shown) + "...";
    std::string text = rule.id + ": " + std::string(rules::name(rule.action)) + " " + operations_of(rule) +
                       (what.empty() ? "" : " " + what) + " (" + source_text(rule.source) + ")";
    if (!rule.reason.empty()) text += ": " + rule.reason;
    return text;
}

void write_rule(JsonWriter& json, const rules::Rule& rule) {
    json.begin_object()
        .member("id", rule.id)
        .member("action", rules::name(rule.action))
        .member("operations", operations_of(rule))
        .member("subject", subject(rule.when))
        .member("source", source_text(rule.source))
        .member("reason", rule.reason)
        .member("built_in", rule.built_in)
        .end_object();
}

}  // namespace callgate::cli
