// Turns sources into one rule set. The order: read every file, merge, expand, compile, and only then run
// examples and warnings. No name is looked up.
#include "rules/load/loader.hpp"

#include <algorithm>
#include <iterator>

#include "base/test_switch.hpp"
#include "rules/load/digest.hpp"
#include "rules/load/examples.hpp"
#include "rules/load/exceptions.hpp"
#include "rules/load/expand.hpp"
#include "rules/load/rule_sources.hpp"
#include "rules/load/warnings.hpp"

namespace callgate::rules {
namespace {

class Loading {
public:
    Loading(const RuleSources& sources, const LoadContext& context)
        : sources_(sources),
          context_(context),
          patterns_(context),
          files_(context, patterns_, result_.diagnostics, sources.profile_text) {
        if (context.tree != nullptr) expander_.emplace(*context.tree, context.known_listings);
    }

    LoadedRules run();

private:
    void error(const Source& at, std::string message) {
        result_.diagnostics.push_back({Diagnostic::Severity::error, at, std::move(message)});
    }
    void warn(const Source& at, std::string message) {
        result_.diagnostics.push_back({Diagnostic::Severity::warning, at, std::move(message)});
    }
    void read_parts();
    void take_settings(const RuleFile& file, bool user_rules);
    void merge_rules();
    void check_ids();
    [[nodiscard]] Rule closed_to_tools();
    void add_stated(const RuleFile& file, const ParsedException& exception);
    [[nodiscard]] std::optional<std::vector<Glob>> expanded_then(const Glob& glob, bool follow) const;
    [[nodiscard]] std::vector<Glob> expand_now(const Glob& glob, bool follow, std::vector<std::string>& kept,
                                               bool sources);
    [[nodiscard]] bool expand(Rule& rule, bool sources);
    [[nodiscard]] bool lacks_kernel(const Rule& rule);
    static void hold_new_file(Rule& rule);
    void compile();
    void check();

    const RuleSources& sources_;
    const LoadContext& context_;
    LoadedRules result_;
    PatternMaker patterns_;
    RuleFiles files_;
    std::optional<Expander> expander_;
    std::vector<const RuleFile*> parts_;
    std::optional<Action> fallback_;
    std::vector<Rule> rules_;
};

void Loading::read_parts() {
    for (const auto& part : sources_.parts) {
        const RuleFile* file = std::visit([&](const auto& one) { return files_.add(one); }, part);
        if (file == nullptr || std::find(parts_.begin(), parts_.end(), file) != parts_.end()) continue;
        parts_.push_back(file);
        take_settings(*file, !context_.config.empty() && file->label == context_.config + "/rules.json");
    }
    for (const std::string& path : files_.paths()) result_.files.push_back(path);
}

void Loading::take_settings(const RuleFile& file, bool user_rules) {
    // The user's accepted rules add answers, never a default.
    if (file.fallback && !user_rules) fallback_ = std::max(fallback_.value_or(Action::allow), *file.fallback);
    result_.sni = result_.sni || file.sni;
    result_.limits = result_.limits.tighter(file.limits);
    merge_environment(file.environment, result_.environment);
    if (result_.description.empty()) result_.description = file.parsed.description;
}

/// The expansion of an earlier load, if known.
std::optional<std::vector<Glob>> Loading::expanded_then(const Glob& glob, bool follow) const {
    if (context_.earlier == nullptr) return std::nullopt;
    const auto& all = context_.earlier->expanded;
    const auto known = std::find_if(all.begin(), all.end(), [&](const LoadSnapshot::Expanded& one) {
        return one.followed == follow && one.pattern == glob.text();
    });
    if (known == all.end()) return std::nullopt;
    std::vector<Glob> globs;
    for (const std::string& path : known->paths) {
        auto found = Glob::compile(path, GlobKind::path);
        if (!found) return std::nullopt;
        globs.push_back(std::move(*found));
    }
    return globs;
}

std::vector<Glob> Loading::expand_now(const Glob& glob, bool follow, std::vector<std::string>& kept,
                                      bool sources) {
    Expansion expansion = expander_->expand(glob, sources);
    kept.insert(kept.end(), expansion.kept.begin(), expansion.kept.end());
    for (const std::string& path : expansion.found)
        if (const std::string real = patterns_.canonical(path); follow && real != path)
            expansion.globs.push_back(Glob::beneath(real));
    LoadSnapshot::Expanded& taken = result_.snapshot.expanded.emplace_back(
        LoadSnapshot::Expanded{.pattern = glob.text(), .followed = follow, .paths = {}});
    for (const Glob& one : expansion.globs) taken.paths.push_back(one.text());
    return std::move(expansion.globs);
}

/// Returns false if no object exists that the rule's patterns match. The caller then drops the rule: without
/// a path it would match every object.
bool Loading::expand(Rule& rule, bool sources) {
    if (!expander_) return true;
    std::vector<Glob> globs;
    std::vector<std::string> kept;
    // A link made by another user must not lead an allowance elsewhere; a restriction follows it.
    const bool follow = rule.action == Action::deny || rule.action == Action::kill;
    for (const Glob& glob : rule.when.path) {
        std::optional<std::vector<Glob>> found = expanded_then(glob, follow);
        if (!found) found = expand_now(glob, follow, kept, sources);
        globs.insert(globs.end(), found->begin(), found->end());
    }
    std::sort(kept.begin(), kept.end());
    kept.erase(std::unique(kept.begin(), kept.end()), kept.end());
    if (!kept.empty() && context_.check) {
        std::string message =
            "rule " + in_quotes(rule.id) + " was not expanded beneath " + in_quotes(kept.front());
        if (kept.size() > 1) message += " and " + std::to_string(kept.size() - 1) + " more directories";
        warn(rule.source, message + ": what lies there stays contested");
    }
    rule.when.path = std::move(globs);
    return !rule.when.path.empty();
}

/// A file that a run may change by a list of keys is written anew under a name beside it. The rule holds that
/// name too, so that nobody opens the new file before it has its own.
void Loading::hold_new_file(Rule& rule) {
    const std::size_t count = rule.when.path.size();
    for (std::size_t index = 0; index < count; ++index) {
        const std::string& pattern = rule.when.path[index].text();
        auto beside = Glob::compile(pattern + std::string(new_file_suffix), GlobKind::path);
        if (beside && !pattern.ends_with("/**")) rule.when.path.push_back(std::move(*beside));
    }
}

/// Whether a rule is about a repository that is not there, and about nothing else. It could match nothing.
bool leads_nowhere(const Rule& rule) {
    return !rule.when.path.empty() && std::ranges::all_of(rule.when.path, [](const Glob& glob) {
        return std::ranges::all_of(
            glob.branches(), [](const Glob::Branch& branch) { return branch.head.starts_with(nowhere); });
    });
}

/// Whether the rule needs what this kernel lacks. Whoever wrote one is told; of a profile's, doctor tells.
bool Loading::lacks_kernel(const Rule& rule) {
    if (!rule.needs_landlock_unix || result_.snapshot.landlock_unix) return false;
    if (!rule.source.file.starts_with("profile "))
        warn(rule.source,
             "the rule " + in_quotes(rule.id) +
                 " is left out: it needs landlock-unix, which this host lacks (callgate doctor)");
    return true;
}

void Loading::check_ids() {
    std::map<std::string_view, const Rule*> seen;
    for (const auto& file : files_.all()) {
        for (const ParsedRule& parsed : file->parsed.rules) {
            const auto [known, added] = seen.emplace(parsed.rule.id, &parsed.rule);
            if (added) continue;
            const Source& first = known->second->source;
            error(parsed.rule.source, "the id " + in_quotes(parsed.rule.id) + " is taken: " + first.file +
                                          ':' + std::to_string(first.line) + ':' +
                                          std::to_string(first.column));
        }
    }
}

/// A file narrows only what it extends: another file of the same run keeps its rules whole.
void Loading::add_stated(const RuleFile& file, const ParsedException& exception) {
    const Source at{file.label, exception.line, exception.column};
    const auto rule = std::ranges::find(rules_, exception.rule, &Rule::id);
    if (rule == rules_.end() || rule->built_in || !file.rests_on(rule->source.file))
        return error(at, "no file that this one extends has a rule " + in_quotes(exception.rule));
    if (const Expected<void> added = add_exception(rules_, exception.rule, exception.pattern, patterns_);
        !added)
        error(at, added.error().text);
}

void Loading::merge_rules() {
    std::size_t count = 0;
    for (const auto& file : files_.all()) count += file->parsed.rules.size();
    if (count > max_rules)
        return error({}, std::to_string(count) + " rules; at most " + std::to_string(max_rules));
    std::vector<Expand> expands(sources_.built_in.size(), Expand::no);
    rules_.reserve(sources_.built_in.size() + count + sources_.option_rules.size());
    rules_.insert(rules_.end(), sources_.built_in.begin(), sources_.built_in.end());
    for (const auto& file : files_.all()) {
        for (ParsedRule& parsed : file->parsed.rules) {
            rules_.push_back(std::move(parsed.rule));
            expands.push_back(parsed.expand);
        }
    }
    rules_.insert(rules_.end(), sources_.option_rules.begin(), sources_.option_rules.end());
    expands.resize(rules_.size(), Expand::no);
    patterns_.homes(PatternMaker::Homes::own);  // what an exception opens, it opens in the run's home
    for (const auto& file : files_.all()) {
        for (const ParsedException& one : file->parsed.exceptions) add_stated(*file, one);
        const auto add = [](auto& all, const auto& more) { all.insert(all.end(), more.begin(), more.end()); };
        add(result_.agent.programs, file->parsed.agent.programs);
        add(result_.agent.launchers, file->parsed.agent.launchers);
        add(result_.agent.starts, file->parsed.agent.starts);
        add(result_.agent.interpreter, file->parsed.agent.interpreter);
        add(result_.agent.arguments, file->parsed.agent.arguments);
    }
    for (const auto& [id, pattern] : sources_.exceptions) {
        if (const Expected<void> added = add_exception(rules_, id, pattern, patterns_); !added)
            error({}, "--except " + id + '=' + pattern + ": " + added.error().text);
    }
    for (std::size_t index = 0; expander_ && index < rules_.size(); ++index)
        for (const Glob& glob : rules_[index].when.path)
            if (expands[index] != Expand::no) expander_->announce(glob, expands[index] == Expand::sources);
    std::size_t kept = 0;
    for (std::size_t index = 0; index < rules_.size(); ++index) {
        if (leads_nowhere(rules_[index]) || lacks_kernel(rules_[index])) continue;
        if (expands[index] != Expand::no && !expand(rules_[index], expands[index] == Expand::sources))
            continue;
        if (rules_[index].filters_changes() && check_enabled("new-settings-name"))
            hold_new_file(rules_[index]);
        if (kept != index) rules_[kept] = std::move(rules_[index]);
        ++kept;
    }
    rules_.resize(kept);
}

/// The kernel lets one process of a Landlock domain read and write another's memory through these.
Rule Loading::closed_to_tools() {
    Rule rule;
    rule.id = "callgate-parties";
    rule.action = Action::deny;
    rule.operations = write_operations | OperationSet{Operation::read};
    for (const std::string_view pattern : {"/proc/*/{mem,environ}", "/proc/*/task/*/{mem,environ}"})
        if (const Expected<void> made = patterns_.make(pattern, false, rule.when.path); !made)
            error({}, made.error().text);
    rule.when.party = Party::tools;
    rule.reason = "a tool could act in the agent's place";
    rule.built_in = true;
    rule.source.file = "built-in";
    return rule;
}

void Loading::compile() {
    const Action fallback = sources_.fallback.value_or(fallback_.value_or(Action::deny));
    if (sources_.name_services && decides_look_ups(rules_, fallback)) {
        std::vector<Rule> more = sources_.name_services();
        rules_.insert(rules_.begin(), std::make_move_iterator(more.begin()),
                      std::make_move_iterator(more.end()));
    }
    const auto by_party = [](const Rule& rule) {
        return rule.when.party || (rule.except && rule.except->party);
    };
    const bool parties = std::ranges::any_of(rules_, by_party);
    if (parties && check_enabled("closed-to-tools")) rules_.insert(rules_.begin(), closed_to_tools());
    if (!parties && !result_.environment.agent.empty())
        error({}, "\"environment\": " + result_.environment.agent.front() +
                      " is for the agent alone, but no rule has \"party\": without one nothing tells the "
                      "agent from "
                      "its tools");
    result_.rules = std::make_shared<const RuleSet>(std::move(rules_), fallback);
}

void Loading::check() {
    std::set<std::string> named;
    for (const RuleFile* part : parts_) {
        named.insert(part->label);
        Findings findings(part->label, result_.diagnostics);
        run_examples(part->parsed.examples, *result_.rules, patterns_, findings);
    }
    collect_warnings(*result_.rules, {context_, patterns_, named}, result_.diagnostics);
}

LoadedRules Loading::run() {
    const LoadSnapshot* const then = context_.earlier;
    result_.snapshot.landlock_unix = then != nullptr ? then->landlock_unix : context_.landlock_unix;
    read_parts();
    check_ids();
    merge_rules();
    compile();
    if (result_.ok() && context_.check) check();
    result_.sha256 = digest(files_, sources_);
    if (auto own = patterns_.take_own_addresses())
        result_.snapshot.hosts[std::string(own_name_of_host)] = std::move(*own);
    result_.snapshot.links = patterns_.take_links();
    result_.snapshot.git_common = then != nullptr ? then->git_common : context_.git_common;
    result_.snapshot.git_admin = then != nullptr ? then->git_admin : context_.git_admin;
    if (!result_.ok()) result_.rules = nullptr;
    return std::move(result_);
}

}  // namespace

Expected<void> LoadedRules::first_error() const {
    for (const Diagnostic& one : diagnostics)
        if (one.severity == Diagnostic::Severity::error) return Problem{one.text()};
    return {};
}

LoadedRules load(const RuleSources& sources, const LoadContext& context) {
    return Loading(sources, context).run();
}

}  // namespace callgate::rules
