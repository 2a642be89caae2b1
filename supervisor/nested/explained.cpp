#include "supervisor/nested/explained.hpp"

#include <optional>
#include <utility>

#include "base/json_read.hpp"
#include "base/json_writer.hpp"
#include "rules/load/examples.hpp"
#include "supervisor/host/file_tree.hpp"
#include "supervisor/host/host.hpp"

namespace callgate::nested {

namespace {

constexpr std::size_t max_request = 8192;

std::string explained(const rules::RuleSet& rules, const rules::ExampleLine& line) {
    std::optional<rules::Verdict> strictest;
    for (const rules::Request& request : line.requests()) {
        const rules::Verdict verdict = rules.evaluate(request);
        if (!strictest || verdict.action > strictest->action) strictest = verdict;
    }
    return json_text([&](JsonWriter& text) {
        text.begin_object()
            .member("callgate", protocol_version)
            .member("ok", true)
            .member("verdict", rules::name(strictest->action))
            .text_or_null("rule", strictest->rule != nullptr ? strictest->rule_name() : "")
            .text_or_null("reason", strictest->rule != nullptr ? strictest->rule->reason : "")
            .end_object();
    });
}

}  // namespace

void answer_explain(Channel& channel, const std::string& home, const std::string& workdir) {
    channel.on("explain", [home, workdir](Channel::Peer& peer, const nlohmann::json& request,
                                          const Channel::Answer& answer) {
        const std::string text = json_read::text(json_read::member(request, "request"));
        if (text.empty() || text.size() > max_request)
            return answer(error_line("expected \"request\": \"OPERATION OBJECT\""));
        const RealFileTree tree;
        rules::LoadContext context;
        context.home = home;
        context.workdir = workdir;
        context.tree = &tree;
        context.canonical = [](const std::string& path) { return canonical(path); };
        rules::PatternMaker patterns(context);
        const auto line = rules::ExampleLine::parse(text, patterns);
        if (!line) return answer(error_line(line.error().text));
        answer(explained(peer.needs->enforced.rules, *line));
    });
}

}  // namespace callgate::nested
