// `callgate check`: rule sets of anybody, validated and tried on their own examples. Nothing runs.
#include <cstdlib>

#include "rules/load/loader.hpp"
#include "base/escape.hpp"
#include "supervisor/cli/describe.hpp"
#include "supervisor/cli/failure.hpp"
#include "supervisor/cli/json_text.hpp"
#include "supervisor/cli/verbs.hpp"
#include "base/plural.hpp"

namespace callgate::cli {

namespace {

struct Counts {
    std::size_t errors = 0, warnings = 0;
};

Counts count(const rules::LoadedRules& loaded) {
    Counts counts;
    for (const rules::Diagnostic& one : loaded.diagnostics)
        ++(one.severity == rules::Diagnostic::Severity::error ? counts.errors : counts.warnings);
    return counts;
}

std::string as_text(const std::string& file, const rules::LoadedRules& loaded) {
    std::string text;
    for (const rules::Diagnostic& one : loaded.diagnostics) text += one.text() + "\n";
    const Counts counts = count(loaded);
    text += terminal_safe(file) + ": ";
    if (loaded.ok()) text += "good, " + plural(loaded.rules->rules().size(), "rule");
    if (!loaded.ok()) text += plural(counts.errors, "error");
    if (counts.warnings > 0) text += ", " + plural(counts.warnings, "warning");
    return text + "\n";
}

std::string as_json(const std::string& file, const rules::LoadedRules& loaded) {
    std::vector<std::string> findings;
    for (const rules::Diagnostic& one : loaded.diagnostics) {
        const bool error = one.severity == rules::Diagnostic::Severity::error;
        findings.push_back(JsonObject()
                               .add("severity", error ? "error" : "warning")
                               .add("file", one.source.file)
                               .add("line", one.source.line)
                               .add("column", one.source.column)
                               .add("message", one.message)
                               .text());
    }
    return JsonObject()
        .add("file", file)
        .add("good", loaded.ok())
        .raw("findings", json_array(findings))
        .text();
}

/// A file that cannot be read at all is wrong use; what it says is a finding.
void require_readable(const std::string& file) {
    constexpr std::size_t size_irrelevant = 0;
    const auto text = read_regular_file(file, size_irrelevant);
    if (text.index() == 0 || std::get<1>(text).starts_with("is larger")) return;
    throw Failure(file + " " + std::get<1>(text) + "; expected a rule set file");
}

}  // namespace

int check(const Arguments& arguments) {
    for (const std::string& file : arguments.rest()) require_readable(file);
    const Places places = find_places();
    const std::string tmp = private_directory_name("RUN");
    const TreeWithTmp tree(tmp);
    rules::LoadContext context = host_context(places, choose_workdir(arguments, places, false), tmp, tree);
    context.check = true;
    bool good = true;
    std::vector<std::string> objects;
    for (const std::string& file : arguments.rest()) {
        rules::RuleSources sources;
        sources.parts.emplace_back(rules::RuleSources::File{file});
        const rules::LoadedRules loaded = rules::load(sources, context);
        good = good && loaded.ok();
        if (arguments.has("json"))
            objects.push_back(as_json(file, loaded));
        else
            print(as_text(file, loaded));
    }
    if (arguments.has("json")) print(json_array(objects) + "\n");
    return good ? 0 : exit_finding;
}

}  // namespace callgate::cli
