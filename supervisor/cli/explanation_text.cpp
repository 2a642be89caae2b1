// An explanation as text and as JSON.
#include <unistd.h>

#include "base/escape.hpp"
#include "base/json_writer.hpp"
#include "base/words.hpp"
#include "supervisor/audit/verbs/show.hpp"
#include "supervisor/cli/describe.hpp"
#include "supervisor/cli/explanation.hpp"

namespace callgate::cli {

namespace {

std::string_view word(rules::Obstacle obstacle) {
    constexpr std::string_view words[] = {"exception", "program", "arguments", "protocol", "party", "server"};
    return words[static_cast<std::size_t>(obstacle)];
}

std::string_view why(rules::Obstacle obstacle, bool arguments_known) {
    switch (obstacle) {
        case rules::Obstacle::exception:
            return "its exception leaves this out";
        case rules::Obstacle::program:
            return "it is for other programs";
        case rules::Obstacle::arguments:
            return arguments_known ? "it is for other arguments" : "it decides too, where its argv matches";
        case rules::Obstacle::protocol:
            return "it is for another protocol";
        case rules::Obstacle::party:
            return "it is for the other party";
        case rules::Obstacle::server:
            return "it decides where the run itself listens";
    }
    return {};
}

/// docs/threat-model.md, "Settings of git".
constexpr std::string_view filtered_changes =
    "a run may rename a new file to it: harmless settings are taken over, the change of a remote or branch "
    "that is there is asked with its old and new value, and other changes are denied; where git counts the "
    "steps of a rebase, a number is taken over";

}  // namespace

std::string coloured(rules::Action action) {
    const std::string word(rules::name(action));
    if (!audit::colour_wanted(STDOUT_FILENO)) return word;
    const char* colour = action == rules::Action::allow ? "32" : action == rules::Action::ask ? "33" : "31";
    return std::string("\x1b[") + colour + "m" + word + "\x1b[0m";
}

std::string as_text(const Question& question, const Answer& answer) {
    const rules::Verdict& verdict = answer.verdict;
    std::string text = coloured(verdict.action) + " " + rules::names(question.operations) + " " +
                       terminal_safe(question.shown) + "\n";
    const auto line = [&text](std::string_view title, const std::string& value) {
        text += "  " + std::string(title) + std::string(8 - title.size(), ' ') + terminal_safe(value) + "\n";
    };
    if (!question.note.empty()) line("note", question.note);
    if (!answer.look_up.empty()) line("look-up", answer.look_up);
    if (question.operations != rules::OperationSet{verdict.operation})
        line("by", "the strictest of these, " + std::string(rules::name(verdict.operation)));
    line("rule", verdict.rule == nullptr ? "default: no rule decides it" : describe(*verdict.rule));
    line("tier", std::string(answer.kernel ? "kernel: " : "contested: ") + answer.tier);
    if (answer.other_party) {
        const rules::Verdict& other = *answer.other_party;
        line("party", "this is for the " + std::string(rules::name(question.party)) + "; for the " +
                          std::string(rules::name(rules::other_of(question.party))) + ": " +
                          std::string(rules::name(other.action)) + " by " +
                          (other.rule == nullptr ? "default" : describe(*other.rule)));
    }
    if (!answer.agents_own.empty())
        line("note", "what the agent executes does not get " + joined(answer.agents_own, ", "));
    for (const Loser& one : answer.lost) line("lost", describe(*one.rule) + " -- " + one.why);
    for (const rules::NearMiss& one : answer.near)
        line("near", describe(*one.rule) + " -- " + std::string(why(one.obstacle, question.arguments_known)));
    if (verdict.action == rules::Action::ask) line("note", "a run asks you, and denies it if nobody answers");
    if (verdict.rule != nullptr && verdict.rule->filters_changes())
        line("note", std::string(filtered_changes));
    line("change", answer.change);
    return text;
}

std::string as_json(const Question& question, const Answer& answer) {
    return json_text([&](JsonWriter& json) {
        const auto add_rule = [&json](const rules::Rule* rule) {
            json.key("rule");
            rule == nullptr ? void(json.null()) : write_rule(json, *rule);
        };
        json.begin_object()
            .member("verdict", rules::name(answer.verdict.action))
            .member("decided_by", rules::name(answer.verdict.decided_by))
            .member("operation", rules::name(answer.verdict.operation))
            .member("object", question.shown)
            .member("program", question.program);
        add_rule(answer.verdict.rule);
        if (answer.other_party) {
            json.member("party", rules::name(question.party));
            json.key("other_party").begin_object().member("verdict", rules::name(answer.other_party->action));
            add_rule(answer.other_party->rule);
            json.end_object();
        }
        if (!answer.agents_own.empty()) json.member("agents_own", answer.agents_own);
        json.member("tier", answer.kernel ? "kernel" : "contested").member("why", answer.tier);
        json.text_or_null("look_up", answer.look_up);
        json.list("lost", answer.lost, [&](const Loser& one) {
            json.begin_object();
            add_rule(one.rule);
            json.member("why", one.why).end_object();
        });
        json.list("near", answer.near, [&](const rules::NearMiss& one) {
            json.begin_object();
            add_rule(one.rule);
            json.member("misses_by", word(one.obstacle)).end_object();
        });
        if (answer.verdict.rule != nullptr && answer.verdict.rule->filters_changes())
            json.member("note", filtered_changes);
        json.member("hint", answer.hint).member("change", answer.change).end_object();
    });
}

}  // namespace callgate::cli
