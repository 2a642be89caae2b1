// The rule options of `run`, `explain` and `plan`, understood and loaded.
//
// What the user types here is trusted (it is the user's own rule set); rule files may be a stranger's and are
// bounded by the loader.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "rules/load/loader.hpp"
#include "rules/plan/plan.hpp"
#include "supervisor/cli/arguments.hpp"
#include "supervisor/host/host.hpp"

namespace callgate::cli {

/// What the rule options name.
struct RuleChoice {
    rules::RuleSources sources;                // without built-in rules
    std::vector<std::string> profiles;         // names
    std::vector<std::string> files;            // -R files and the user's accepted rules
    std::map<std::string, std::string> links;  // paths of options that lead elsewhere than they are written
    bool host_static = false;  // a --connect named a host: its addresses are those of the start
};

/// Throws Failure: unknown profile (with the nearest), a rule file that cannot be read, a bad address or
/// port.
[[nodiscard]] RuleChoice read_rule_options(const Arguments& arguments, const rules::LoadContext& context);

/// The part of it that -r, -w, -x, -d, -c and --bind make.
void add_option_rules(RuleChoice& choice, const Arguments& arguments, const rules::LoadContext& context);

[[nodiscard]] rules::RecordMode read_record_mode(const Arguments& arguments);

/// Absolute and canonical. Throws Failure where it is no directory, or where `refuse_wide` and it is the
/// home, "/" or above the home without having been named by --workdir.
[[nodiscard]] std::string choose_workdir(const Arguments& arguments, const Places& places, bool refuse_wide);

/// Whether callgate run would refuse this work directory unless it were named.
[[nodiscard]] bool is_wide(const std::string& workdir, const Places& places);

/// `path` as the user means it: "~/" is the home, a relative one begins at the current directory.
[[nodiscard]] std::string written_out(const std::string& path, const std::string& home);
/// The same, canonical.
[[nodiscard]] std::string absolute(const std::string& path, const std::string& home);

struct CompiledRules {
    RuleChoice choice;
    rules::LoadedRules loaded;
    rules::Plan plan;
};

struct CompileOptions {
    std::vector<std::string> own_files;  // the log's, the key's; "" is none
    bool warnings = false;               // about the rules, said one by one
    bool reasons = true;                 // PlanInput::reasons
    bool built_in = true;                // with callgate's own rules
    std::string terminal{};              // where the person is asked, "" none: closed to the run
    bool terminal_if_asked = false;      // only where the rules ask anything
};

/// Loads, adds the built-in rules and makes the plan. Errors of rule files are said one by one, then Failure
/// is thrown.
[[nodiscard]] CompiledRules compile_rules(const Arguments& arguments, const Places& places,
                                          const rules::LoadContext& context, const CompileOptions& options);

/// The machine's files, with the run's private directory as if it were there (for verbs that run nothing).
class TreeWithTmp : public RealFileTree {
public:
    explicit TreeWithTmp(std::string tmp) : tmp_(std::move(tmp)) {}
    [[nodiscard]] Kind kind(const std::string& path) const override {
        return path == tmp_ ? Kind::directory : RealFileTree::kind(path);
    }
    [[nodiscard]] std::optional<std::vector<Entry>> entries(const std::string& directory,
                                                            std::size_t limit) const override {
        if (directory == tmp_) return std::vector<Entry>{};
        return RealFileTree::entries(directory, limit);
    }

private:
    std::string tmp_;
};

/// $TMPDIR or /tmp, canonical, then callgate-UID-RUN.
[[nodiscard]] std::string private_directory_name(const std::string& run);

}  // namespace callgate::cli
