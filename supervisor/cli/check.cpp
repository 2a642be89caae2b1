// `callgate check`: validates any rule set and runs its examples. It starts no program.
#include <cstdlib>

#include "base/escape.hpp"
#include "base/json_writer.hpp"
#include "base/plural.hpp"
#include "rules/load/loader.hpp"
#include "supervisor/cli/check_hosts.hpp"
#include "supervisor/cli/describe.hpp"
#include "supervisor/cli/failure.hpp"
#include "supervisor/cli/verbs.hpp"

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

void write_result(JsonWriter& json, const std::string& file, const rules::LoadedRules& loaded) {
    json.begin_object().member("file", file).member("good", loaded.ok());
    json.list("findings", loaded.diagnostics, [&](const rules::Diagnostic& one) {
        const bool error = one.severity == rules::Diagnostic::Severity::error;
        json.begin_object()
            .member("severity", error ? "error" : "warning")
            .member("file", one.source.file)
            .member("line", one.source.line)
            .member("column", one.source.column)
            .member("message", one.message)
            .end_object();
    });
    json.end_object();
}

/// An unreadable file is a usage error; wrong contents are findings.
void require_readable(const std::string& file) {
    constexpr std::size_t size_irrelevant = 0;
    const auto text = read_regular_file(file, size_irrelevant);
    if (text || text.error().text.starts_with("is larger")) return;
    throw Failure(file + " " + text.error().text + "; expected a rule set file");
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
    Buffer out;
    JsonWriter objects(out);
    objects.begin_list();
    for (const std::string& file : arguments.rest()) {
        rules::RuleSources sources;
        sources.parts.emplace_back(rules::RuleSources::File{file});
        rules::LoadedRules loaded = rules::load(sources, context);
        if (loaded.ok()) {
            for (rules::Diagnostic& one : host_warnings(*loaded.rules, file))
                loaded.diagnostics.push_back(std::move(one));
        }
        good = good && loaded.ok();
        if (arguments.has("json"))
            write_result(objects, file, loaded);
        else
            print(as_text(file, loaded));
    }
    objects.end_list();
    if (arguments.has("json")) print(std::string(out.view()) + "\n");
    return good ? 0 : exit_finding;
}

}  // namespace callgate::cli
