// The rule files of a run: those that the user named and those that they extend, each read once.
//
// The reader is bounded against hostile files: 1 MiB each, 100 files, 10,000 rules in all, no cycle.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "rules/load/loader.hpp"
#include "rules/load/rule_parser.hpp"

namespace callgate::rules {

/// A parsed rule file, with the settings that it inherits from those that it extends.
struct RuleFile {
    std::string label;                     // for messages: a path, "profile NAME"
    std::optional<std::string> directory;  // of the file; nothing if it has none
    ParsedFile parsed;
    std::vector<const RuleFile*> extends;
    /// Whether this file extends the one with that label, directly or through others.
    [[nodiscard]] bool rests_on(std::string_view other) const;
    /// The file's own default, else the strictest of what it extends.
    std::optional<Action> fallback;
    bool sni = false;  // the file says so, or one that it extends
    Limits limits;
    Environment environment;
};

/// Adds names that are not there yet, and values: of one name the later one counts.
void merge_environment(const Environment& from, Environment& into);

class RuleFiles {
public:
    RuleFiles(const LoadContext& context, PatternMaker& patterns, std::vector<Diagnostic>& diagnostics,
              const RuleSources::ProfileText& profile_text)
        : context_(context), patterns_(patterns), diagnostics_(diagnostics), profile_text_(profile_text) {}

    /// Adds a source that the user named. Null after an error, which becomes a diagnostic.
    const RuleFile* add(const RuleSources::File& part);
    const RuleFile* add(const RuleSources::Profile& part);
    const RuleFile* add(const RuleSources::Text& part);

    /// Every file in merge order: each before those that it extends.
    [[nodiscard]] const std::vector<std::unique_ptr<RuleFile>>& all() const { return files_; }
    /// Paths that were read (no shipped profile).
    [[nodiscard]] const std::vector<std::string>& paths() const { return paths_; }

private:
    /// A file found but not yet parsed.
    struct Found {
        std::string key, label;
        std::optional<std::string> directory;
        std::variant<std::string, const ShippedProfile*> text;
    };
    std::optional<Found> find_file(const std::string& path, const Source& asked);
    std::optional<Found> find_profile(const std::string& name, const Source& asked);
    std::optional<Found> find_extended(const std::string& name, const RuleFile& from, const Source& asked);
    const RuleFile* include(Found found, const Source& asked);
    void inherit(RuleFile& file);
    void error(const Source& at, std::string message);

    const LoadContext& context_;
    PatternMaker& patterns_;
    std::vector<Diagnostic>& diagnostics_;
    const RuleSources::ProfileText& profile_text_;
    std::vector<std::unique_ptr<RuleFile>> files_;
    std::map<std::string, const RuleFile*> known_;
    std::vector<std::pair<std::string, std::string>> open_;  // key and label, outermost first
    std::vector<std::string> paths_;
};

}  // namespace callgate::rules
