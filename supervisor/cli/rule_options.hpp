// Reads the rule options of `run`, `explain` and `plan`, and loads the rules.
//
// Options are trusted, because the user types them. Rule files may come from others, so the loader bounds
// them.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "rules/load/loader.hpp"
#include "rules/plan/plan.hpp"
#include "supervisor/cli/arguments.hpp"
#include "supervisor/cli/linked_paths.hpp"
#include "supervisor/host/built_in_rules.hpp"
#include "supervisor/host/host.hpp"
#include "supervisor/run/git_repository.hpp"

namespace callgate::cli {

/// The sources that the rule options name.
struct RuleChoice {
    rules::RuleSources sources;                // without built-in rules
    std::vector<std::string> profiles;         // names
    std::vector<std::string> files;            // -R files and the user's accepted rules
    std::map<std::string, std::string> links;  // paths of options, with different targets
    LinkedPaths linked;                        // paths of options and rule files
};

/// Throws Failure: an unknown profile (with the nearest), an unreadable rule file, a bad address or port.
/// `otherwise` is the profile where no option names rules.
[[nodiscard]] RuleChoice read_rule_options(const Arguments& arguments, const rules::LoadContext& context,
                                           const std::string& otherwise = "agent");

/// Whether options name rules.
[[nodiscard]] bool names_rules(const Arguments& arguments);

/// Adds the rules of -r, -w, -x, -d, -c and --bind.
void add_option_rules(RuleChoice& choice, const Arguments& arguments, const rules::LoadContext& context);

/// Says which paths of -r and -x do not exist: mostly a name is misspelt. -w may name what is to be made.
/// Says also where -r is given a file of rules.
void say_doubtful_paths(const Arguments& arguments, const std::string& home);

[[nodiscard]] rules::RecordMode read_record_mode(const Arguments& arguments);

/// The work directory, absolute and canonical. Throws Failure if it is no directory. With `refuse_wide` it
/// also throws for "/", the home and directories above the home, unless --workdir names them.
/// The links on the way to it are added to `linked`.
[[nodiscard]] std::string choose_workdir(const Arguments& arguments, const Places& places, bool refuse_wide,
                                         LinkedPaths& linked);
[[nodiscard]] std::string choose_workdir(const Arguments& arguments, const Places& places, bool refuse_wide);

/// The repository of the work directory, if `.git` there is a file. What may be opened of it goes into the
/// context.
[[nodiscard]] GitRepository choose_repository(rules::LoadContext& context, const Places& places);

/// Whether callgate run refuses this work directory unless it is named.
[[nodiscard]] bool is_wide(const std::string& workdir, const Places& places);

/// `path` in full: "~/" is the home, a relative path begins at the current directory. That has the name that
/// the shell gives it ($PWD), where it has one: it shows the links that the user came through.
[[nodiscard]] std::string written_out(const std::string& path, const std::string& home);
/// The same, canonical.
[[nodiscard]] std::string absolute(const std::string& path, const std::string& home);

struct CompiledRules {
    RuleChoice choice;
    rules::LoadedRules loaded;
    rules::Plan plan;
};

struct CompileOptions {
    std::vector<std::string> own_files;  // of the log and the key; "": none
    bool warnings = false;               // print the warnings of the rules
    bool reasons = true;                 // PlanInput::reasons
    bool built_in = true;                // add callgate's own rules
    std::string terminal{};              // the person's, which the run may not open; "": none
    std::string profile = "agent";       // where no option names rules
    bool nested = false;                 // the run around hands files about name servers over
    std::string outer_denials{};         // its list of denials; "": none
};

/// Loads the rules, adds the built-in ones and makes the plan. Prints the errors of rule files, then throws
/// Failure.
[[nodiscard]] CompiledRules compile_rules(const Arguments& arguments, const Places& places,
                                          const rules::LoadContext& context, const CompileOptions& options);

/// The host's files, plus the run's private directory, for verbs that run nothing.
class TreeWithTmp : public RealFileTree {
public:
    explicit TreeWithTmp(std::string tmp) : tmp_(std::move(tmp)), denials_(denials_name(tmp_)) {}
    [[nodiscard]] Kind kind(const std::string& path) const override {
        if (path == denials_) return Kind::file;
        return path == tmp_ ? Kind::directory : RealFileTree::kind(path);
    }
    [[nodiscard]] std::optional<std::vector<Entry>> entries(const std::string& directory,
                                                            std::size_t limit) const override {
        if (directory == tmp_) return std::vector<Entry>{};
        return RealFileTree::entries(directory, limit);
    }

private:
    std::string tmp_, denials_;
};

/// For PlanInput: objects there are decided beyond the rules.
[[nodiscard]] std::string shared_memory();
[[nodiscard]] bool decides_processes();

/// $TMPDIR or /tmp, canonical, then callgate-UID-RUN.
[[nodiscard]] std::string private_directory_name(const std::string& run);

}  // namespace callgate::cli
