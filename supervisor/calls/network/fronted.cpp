#include "supervisor/calls/network/fronted.hpp"

#include <algorithm>
#include <array>
#include <memory>
#include <string>

#include "base/escape.hpp"
#include "base/test_switch.hpp"
#include "supervisor/decide/parties.hpp"
#include "supervisor/front/tls_front.hpp"

namespace callgate::calls {

namespace {

/// The facts about a connect that a later record needs. It owns what the record's views show.
struct Connected {
    std::shared_ptr<DecideNeeds> needs;
    rules::Endpoint endpoint;
    names::Bindings::Names names;
    audit::Caller caller;
    std::string executable;
    std::uint64_t sequence = 0;
};

std::string refusal(const relay::Judged& judged) {
    switch (judged.beginning) {
        case relay::Beginning::other_name:
            return std::string("the TLS client asked for ") + judged.name.data() +
                   ", which is no name that the rules allow at this address and port";
        case relay::Beginning::no_name:
            return "the TLS client named no server";
        case relay::Beginning::hidden_name:
            return "the TLS client may ask for another name than it shows (encrypted client hello): turn "
                   "that "
                   "off in it, or say \"tls\": \"pass\" in the rule";
        case relay::Beginning::not_tls:
            return "the connection does not begin with TLS (\"tls\": \"pass\" in the rule lets it through)";
        case relay::Beginning::server_first:
            return "the server spoke first, so it is no TLS (\"tls\": \"pass\" in the rule lets it through)";
        case relay::Beginning::accepted:
        case relay::Beginning::abandoned:
            break;
    }
    return {};
}

/// The names of the address by which the rules allow this very connect. Another one may be allowed on another
/// port, or to another program.
std::vector<std::string> allowed_names(NetworkCall& context, const Subject& subject,
                                       const names::Bindings::Names& names, const rules::Verdict& verdict) {
    Subject alone = subject;
    auto& endpoint = std::get<rules::Endpoint>(alone.object);
    std::vector<std::string> allowed;
    for (const std::string& name : *names) {
        const std::array<std::string, 1> one{name};
        endpoint.names = one;
        if (evaluate(context, alone).action <= verdict.action || !check_enabled("tls-name-here"))
            allowed.push_back(name);
    }
    return allowed;
}

/// Records a refusal of the front. The connection is closed whether or not that succeeds.
void note_refusal(Connected& connected, const relay::Judged& judged) {
    const std::string reason = refusal(judged);
    if (reason.empty()) return;
    audit::Decision decision;
    decision.call = "connect";
    decision.caller = connected.caller;
    decision.caller.executable = connected.executable;
    decision.operation = rules::Operation::connect;
    decision.operations = decision.first_operations = rules::Operation::connect;
    decision.object = connected.endpoint;
    decision.verdict = failure(rules::Operation::connect, ECONNRESET);
    decision.reason = reason;
    decision.of_sequence = connected.sequence;
    if (connected.needs->log != nullptr) {
        if (const auto written = connected.needs->log->record(decision); !written) {
            int none = 0;
            connected.needs->log_error.compare_exchange_strong(none, written.error().value());
        }
        if (connected.needs->sync_log) connected.needs->sync_log();
    }
    connected.needs->sink.note(decision);
}

}  // namespace

bool goes_through_front(NetworkCall& context, const Subject& subject) {
    if (context.network.front == nullptr || !check_enabled("tls-name")) return false;
    const rules::Request request{
        subject.operations, subject.object, context.caller.executable, {}, party_of(context)};
    // A rule says so, or the address is allowed by itself.
    const auto goes_past = [&request](const rules::RuleSet& level) {
        const auto matching = level.matching(request, rules::Operation::connect);
        if (matching.empty()) return level.fallback() == rules::Action::allow;
        if (std::ranges::any_of(matching, [](const rules::Rule* rule) {
                return rule->tls_pass && rule->action < rules::Action::deny;
            }))
            return true;
        const bool asks = std::ranges::any_of(
            matching, [](const rules::Rule* rule) { return rule->action == rules::Action::ask; });
        return !asks && matching.front()->when.host.empty();
    };
    // A run leads nothing past the check of another level, of the run around it or of one within.
    for (const rules::RuleSet* level = &context.needs.enforced.rules; level != nullptr;
         level = level->outer())
        if (!goes_past(*level)) return true;
    return false;
}

void connect_through_front(NetworkCall& context, PinnedSocket& socket, const SocketAddress& address,
                           const Subject& subject, const rules::Verdict& verdict,
                           const names::Bindings::Names& names, std::uint64_t sequence) {
    if (!context.blocking.enter()) {
        socket.fd.reset();
        return deny_failure(context, subject, EAGAIN, "overload: too many calls are blocked");
    }
    const audit::Decision known = decision_on(context, subject, allow_all());
    const auto connected = std::make_shared<Connected>(
        Connected{context.needs.hold(), std::get<rules::Endpoint>(subject.object), names, known.caller,
                  std::string(known.caller.executable), sequence});
    connected->endpoint.names = *connected->names;
    const auto begun = [connected](const relay::Judged& judged) { note_refusal(*connected, judged); };
    const int error = context.network.front->connect(socket.fd.get(), address.get(), address.length,
                                                     allowed_names(context, subject, names, verdict), begun);
    context.blocking.leave();
    finish(context, socket, sequence, 0, error);
}

}  // namespace callgate::calls
