#include "rules/load/warnings.hpp"

#include <algorithm>

#include "rules/load/covers.hpp"
#include "rules/load/rule_parser.hpp"

namespace callgate::rules {
namespace {

class Warnings {
public:
    Warnings(const RuleSet& rules, const WarningContext& context, std::vector<Diagnostic>& out)
        : rules_(rules), context_(context), out_(out) {}

    void collect();

private:
    void add(const Rule& rule, const std::string& message) {
        out_.push_back(
            {Diagnostic::Severity::warning, rule.source, "rule " + in_quotes(rule.id) + ": " + message});
    }
    void check_rule(const Rule& rule);
    void check_never_decides(const Rule& rule);
    [[nodiscard]] bool check_overruled(const Rule& rule);
    [[nodiscard]] const Rule* overruling(const Rule& rule, const Glob& glob, Operation operation) const;
    void check_patterns(const Rule& rule);
    void check_pattern(const Rule& rule, const Glob& glob);
    void check_directories(const Rule& rule);
    [[nodiscard]] bool reaches_into(const std::string& directory) const;
    void check_connect(const Rule& rule);
    void check_changes(const Rule& rule);
    void check_arguments(const Rule& rule);
    void check_execute(const Rule& rule);
    void check_links(const Rule& rule);
    void check_secrets();
    void check_start();
    [[nodiscard]] Verdict decide(Operation operation, const std::string& path) const;

    const RuleSet& rules_;
    const WarningContext& context_;
    std::vector<Diagnostic>& out_;
};

Verdict Warnings::decide(Operation operation, const std::string& path) const {
    Request request;
    request.operations = operation;
    request.object = FileObject{path, false};
    return rules_.evaluate(request);
}

bool is_shipped(const Rule& rule) { return rule.source.file.starts_with("profile "); }

/// Whether the exception could leave out an object of the branch (conservative: true if unsure).
bool may_leave_out(const Conditions& except, const Glob::Branch& branch) {
    return except.path.empty() || std::any_of(except.path.begin(), except.path.end(), [&](const Glob& one) {
               return branch.literal ? one.matches(branch.head) : one.may_match_beneath(branch.head);
           });
}

/// The stricter rule that decides `operation` on everything that `glob`, a pattern of `rule`, matches; null
/// if there is none.
const Rule* Warnings::overruling(const Rule& rule, const Glob& glob, Operation operation) const {
    const auto all = rules_.rules();
    const auto found = std::find_if(all.begin(), all.end(), [&](const Rule& other) {
        return other.action > rule.action && other.operations.contains(operation) && !other.when.argv &&
               !other.filtered && (!other.when.party || other.when.party == rule.when.party) &&
               covers_list(other.when.program, rule.when.program, covers_glob) &&
               (other.when.path.empty() || covers_list(other.when.path, {glob}, covers_glob)) &&
               (!other.except ||
                std::none_of(glob.branches().begin(), glob.branches().end(),
                             [&](const auto& branch) { return may_leave_out(*other.except, branch); }));
    });
    return found == all.end() ? nullptr : &*found;
}

/// Warns of patterns that a stricter rule decides, mostly one of a file that is extended. Returns whether
/// there is one.
bool Warnings::check_overruled(const Rule& rule) {
    struct Lost {
        const Glob* glob;
        OperationSet operations;
        const Rule* winner;
    };
    std::vector<Lost> lost;
    bool whole = true;
    for (const Glob& glob : rule.when.path) {
        Lost one{&glob, {}, nullptr};
        for (const Operation operation : rule.operations) {
            const Rule* const winner = overruling(rule, glob, operation);
            if (winner == nullptr) continue;
            one.operations = one.operations | OperationSet{operation};
            if (one.winner == nullptr) one.winner = winner;
        }
        whole = whole && one.operations == rule.operations;
        if (one.winner != nullptr) lost.push_back(one);
    }
    for (const Lost& one : lost) {
        const Rule& winner = *one.winner;
        std::string message = whole ? "can never decide" : in_quotes(one.glob->text()) + " can never decide";
        if (one.operations != rule.operations) message += " " + names(one.operations);
        message += ": rule " + in_quotes(winner.id) + " always wins";
        if (winner.source.file != rule.source.file && !winner.built_in && winner.action >= Action::deny)
            message += "; if it is to be allowed, start with --except " + winner.id + "=" + one.glob->text() +
                       R"(, or write "exceptions": {")" + winner.id + R"(": [")" + one.glob->text() +
                       R"("]} into the file)";
        add(rule, message);
        if (whole) break;
    }
    return !lost.empty();
}

void Warnings::check_never_decides(const Rule& rule) {
    // Every pair is compared: ten thousand rules of an untrusted author must not take minutes.
    constexpr std::size_t max_compared = 1000;
    if (rules_.rules().size() > max_compared) return;
    if (check_overruled(rule)) return;
    for (const Rule& other : rules_.rules()) {
        if (&other == &rule) continue;
        // For equal actions the first rule names the verdict; a repetition in another file is no mistake.
        const bool wins = other.action > rule.action || (other.action == rule.action && &other < &rule &&
                                                         other.source.file == rule.source.file);
        if (wins && covers_rule(other, rule))
            return add(rule, "can never decide: rule " + in_quotes(other.id) + " always wins");
    }
}

void Warnings::check_pattern(const Rule& rule, const Glob& glob) {
    if (!glob.can_match())
        return add(rule, "the pattern " + in_quotes(glob.text()) +
                             " matches nothing: resolved paths hold no \".\" and \"..\"");
    constexpr std::size_t max_path = 4095;
    for (const Glob::Branch& branch : glob.branches()) {
        if (branch.head.size() > max_path)
            return add(rule, "the pattern " + in_quotes(glob.text()) +
                                 " matches nothing: paths have at most 4095 bytes");
        const bool beneath = !branch.literal && !branch.hierarchy;
        if (beneath && context_.host.tree != nullptr && branch.head != "/" &&
            context_.host.tree->kind(branch.head) == FileTree::Kind::file)
            add(rule, "the pattern " + in_quotes(glob.text()) +
                          " matches nothing: " + in_quotes(branch.head) + " is not a directory");
    }
}

void Warnings::check_patterns(const Rule& rule) {
    for (const Glob& glob : rule.when.path) check_pattern(rule, glob);
    for (const Glob& glob : rule.when.program) check_pattern(rule, glob);
    for (const Glob& glob : rule.when.unix_socket)
        if (glob.kind() == GlobKind::path) check_pattern(rule, glob);
    if (!rule.except) return;
    for (const Glob& glob : rule.except->path) check_pattern(rule, glob);
}

/// Whether the rules allow something in the directory, so that its own name was meant.
bool Warnings::reaches_into(const std::string& directory) const {
    if (decide(Operation::read, directory + "/sample").action == Action::allow) return true;
    const auto all = rules_.rules();
    return std::any_of(all.begin(), all.end(), [&](const Rule& other) {
        return other.action <= Action::ask &&
               std::any_of(other.when.path.begin(), other.when.path.end(), [&](const Glob& glob) {
                   return std::any_of(glob.branches().begin(), glob.branches().end(), [&](const auto& one) {
                       return one.head.starts_with(directory + '/') ||
                              (one.head == directory && !one.literal);
                   });
               });
    });
}

/// A rule for a directory by its own name says nothing about what lies in it, which is hardly ever meant. Nor
/// does a final slash mean more.
void Warnings::check_directories(const Rule& rule) {
    const bool restricts = rule.action == Action::deny || rule.action == Action::kill;
    const auto beneath = [](const std::string& directory) {
        return in_quotes((directory == "/" ? "" : directory) + "/**");
    };
    const auto covered = [&rule](const std::string& directory) {
        return std::any_of(rule.when.path.begin(), rule.when.path.end(),
                           [&](const Glob& one) { return one.covers_hierarchy(directory); });
    };
    for (const Glob& glob : rule.when.path) {
        if (glob.text().size() > 1 && glob.text().ends_with('/')) {
            add(rule, "the final slash of " + in_quotes(glob.text()) +
                          " means nothing: for all that lies in a directory write " +
                          beneath(glob.text().substr(0, glob.text().find_last_not_of('/') + 1)));
            continue;
        }
        for (const Glob::Branch& branch : glob.branches()) {
            const bool directory = branch.literal && context_.host.tree != nullptr &&
                                   context_.host.tree->kind(branch.head) == FileTree::Kind::directory;
            constexpr OperationSet contents{Operation::read, Operation::modify, Operation::execute};
            // Shipped profiles allow listing a directory where they say so.
            const bool meant = restricts ? covered(branch.head)
                                         : is_shipped(rule) || !rule.operations.intersects(contents) ||
                                               !directory || reaches_into(branch.head);
            if (directory && !meant)
                add(rule, in_quotes(branch.head) +
                              " is a directory, and what lies in it is not covered: write " +
                              beneath(branch.head));
        }
    }
}

/// Option words stand between a program and its subcommand: `git -C . push`.
void Warnings::check_arguments(const Rule& rule) {
    const bool restricts = rule.action != Action::allow;
    if (!restricts || !rule.when.argv) return;
    const std::vector<Glob>& all = *rule.when.argv;
    std::string better;
    bool passed = false, any_before = false;
    for (std::size_t index = 0; index < all.size(); ++index) {
        const std::string& text = all[index].text();
        const bool literal = text.find_first_of("*?[{") == std::string::npos;
        if (index > 0 && literal && !any_before) {
            better += "\"**\", ";
            passed = true;
            any_before = true;
        }
        any_before = any_before || text == "**";
        // The caller chooses the first argument: it need not be the program's name.
        const bool chosen = index == 0 && literal;
        passed = passed || chosen;
        better += (chosen ? "\"*\"" : in_quotes(text)) + (index + 1 < all.size() ? ", " : "");
    }
    if (passed)
        add(rule, "other arguments pass it, such as options before a subcommand: write \"argv\": [" + better +
                      "]; it stays a hint to callers, not a protection");
}

void Warnings::check_connect(const Rule& rule) {
    const Conditions& when = rule.when;
    if (rule.action == Action::allow && rule.operations.contains(Operation::connect) && when.host.empty() &&
        when.address.empty() && when.port.empty() && when.unix_socket.empty())
        add(rule,
            "allows connecting everywhere, also to services of this machine and of its network: add "
            "\"host\", \"address\", \"port\" or \"unix\"");
}

void Warnings::check_changes(const Rule& rule) {
    const OperationSet changes = rule.operations & write_operations;
    if (rule.action == Action::allow && !changes.empty() && rule.when.path.empty() && !is_shipped(rule))
        add(rule, "allows " + names(changes) + " wherever no rule denies it: add \"path\"");
}

void Warnings::check_execute(const Rule& rule) {
    if (!rule.operations.contains(Operation::execute)) return;
    if (rule.action == Action::allow || rule.action == Action::ask) {
        if (context_.host.landlock_abi == 0)
            add(rule, "needs Landlock to hold executions, which this kernel lacks");
        return;
    }
    for (const Glob& glob : rule.when.path) {
        for (const Glob::Branch& branch : glob.branches()) {
            if (decide(Operation::read, sample_path(branch)).action != Action::allow) continue;
            return add(rule,
                       "what is not executed under its name may be copied and executed: deny read, too (" +
                           in_quotes(glob.text()) + " may be read)");
        }
    }
}

void Warnings::check_links(const Rule& rule) {
    const bool restricts = rule.action == Action::deny || rule.action == Action::kill;
    if (!restricts || rule.built_in || !context_.host.link_count) return;
    for (const Glob& glob : rule.when.path) {
        for (const Glob::Branch& branch : glob.branches()) {
            if (!branch.literal || context_.host.tree == nullptr) continue;
            if (context_.host.tree->kind(branch.head) != FileTree::Kind::file) continue;
            const unsigned long links = context_.host.link_count(branch.head);
            if (links > 1)
                add(rule, in_quotes(branch.head) + " has " + std::to_string(links) +
                              " hard links: the others are not covered");
        }
    }
}

void Warnings::check_rule(const Rule& rule) {
    if (!context_.named.contains(rule.source.file)) return check_links(rule);
    check_never_decides(rule);
    check_patterns(rule);
    check_directories(rule);
    check_arguments(rule);
    check_connect(rule);
    check_changes(rule);
    check_execute(rule);
    check_links(rule);
    if (!rule.when.host.empty() && rules_.fallback() == Action::allow)
        add(rule,
            "names a host, and the default allows: nothing is confined by name, because every address can be "
            "reached without one");
    if (rule.action == Action::allow && !rule.when.program.empty())
        add(rule,
            "depends on the asking program, which is no protection: any process that may run it can act in "
            "its name");
    if (rule.action == Action::allow && rule.when.argv)
        add(rule,
            "depends on arguments, which is no protection: another process of the run may rewrite them");
}

/// Checks allow rules against the patterns of the base profile that protect secrets. A rule that allows one
/// of those paths is too wide.
void Warnings::check_secrets() {
    // If base is extended, its denials are in force; patterns that it expands at start need not be checked by
    // name.
    const auto all = rules_.rules();
    if (std::any_of(all.begin(), all.end(),
                    [](const Rule& rule) { return rule.source.file == "profile base"; }))
        return;
    std::vector<Diagnostic> ignored;
    const ShippedProfile* profile = find_shipped_profile("base");
    if (profile == nullptr) return;
    const ParsedFile base = parse_rules(*profile, "profile base", context_.patterns, ignored);
    std::set<const Rule*> told;
    for (const ParsedRule& secret : base.rules) {
        const Rule& rule = secret.rule;
        if (rule.action != Action::deny || !rule.operations.contains(Operation::read)) continue;
        for (const Glob& glob : rule.when.path) {
            for (const Glob::Branch& branch : glob.branches()) {
                const Verdict verdict = decide(Operation::read, sample_path(branch));
                if (verdict.action != Action::allow || verdict.rule == nullptr) continue;
                if (!context_.named.contains(verdict.rule->source.file) || !told.insert(verdict.rule).second)
                    continue;
                add(*verdict.rule, "so wide that it covers secrets: " + in_quotes(glob.text()) + " (rule " +
                                       in_quotes(rule.id) + " of the profile base)");
            }
        }
    }
}

/// Warns if no program could start: a program needs execution, and libraries if it is linked dynamically.
void Warnings::check_start() {
    if (rules_.fallback() == Action::allow) return;
    const auto all = rules_.rules();
    const bool executes = std::any_of(all.begin(), all.end(), [](const Rule& rule) {
        return rule.action <= Action::ask && rule.operations.contains(Operation::execute);
    });
    const std::string file = context_.named.empty() ? "" : *context_.named.begin();
    const auto warn = [&](const std::string& message) {
        out_.push_back({Diagnostic::Severity::warning, {file, 0, 0}, message});
    };
    if (!executes) return warn("no program could start: nothing may be executed; extend \"base\", or use -x");
    for (const std::string directory : {"/usr/lib", "/lib", "/lib64"}) {
        const Verdict verdict =
            decide(Operation::read, context_.patterns.canonical(directory) + "/ld-linux.so.2");
        if (verdict.action == Action::allow || verdict.action == Action::ask) return;
    }
    warn("no dynamically linked program could start: /usr/lib may not be read; extend \"base\"");
}

void Warnings::collect() {
    for (const Rule& rule : rules_.rules()) check_rule(rule);
    check_secrets();
    check_start();
}

}  // namespace

void collect_warnings(const RuleSet& rules, const WarningContext& context, std::vector<Diagnostic>& out) {
    Warnings(rules, context, out).collect();
}

}  // namespace callgate::rules
