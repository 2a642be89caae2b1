#include "rules/load/rule_sources.hpp"

#include <algorithm>
#include <filesystem>

#include "rules/load/json_tree.hpp"
#include "rules/load/rule_fields.hpp"

namespace callgate::rules {
namespace {

constexpr std::size_t max_files = 100;

bool is_file_name(std::string_view name) {
    return name.find('/') != std::string_view::npos || name.ends_with(".json") || name.starts_with('~') ||
           name.starts_with("${");
}

bool is_profile_name(std::string_view name) {
    return !name.empty() && name.size() <= 100 && name.front() != '.' &&
           std::all_of(name.begin(), name.end(), [](char byte) {
               return (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z') ||
                      (byte >= '0' && byte <= '9') || byte == '-' || byte == '_' || byte == '.';
           });
}

std::string parent_of(const std::string& path) {
    const std::size_t slash = path.rfind('/');
    return slash == std::string::npos ? "." : path.substr(0, slash);
}

std::vector<std::string_view> shipped_names() {
    std::vector<std::string_view> names;
    for (const ShippedProfile& profile : shipped_profiles()) names.push_back(profile.name);
    return names;
}

void add_names(const std::vector<std::string>& from, std::vector<std::string>& into) {
    for (const std::string& name : from)
        if (std::find(into.begin(), into.end(), name) == into.end()) into.push_back(name);
}

}  // namespace

void merge_environment(const Environment& from, Environment& into) {
    add_names(from.pass, into.pass);
    add_names(from.agent, into.agent);
    for (const auto& [name, value] : from.set) into.set[name] = value;
}

bool RuleFile::rests_on(std::string_view other) const {
    std::vector<const RuleFile*> reached = extends;  // each once: files may extend each other's extended ones
    for (std::size_t at = 0; at < reached.size(); ++at) {
        if (reached[at]->label == other) return true;
        for (const RuleFile* next : reached[at]->extends)
            if (std::ranges::find(reached, next) == reached.end()) reached.push_back(next);
    }
    return false;
}

void RuleFiles::error(const Source& at, std::string message) {
    diagnostics_.push_back({Diagnostic::Severity::error, at, std::move(message)});
}

std::optional<RuleFiles::Found> RuleFiles::find_file(const std::string& path, const Source& asked) {
    const std::string normal = std::filesystem::path(path).lexically_normal().string();
    Expected<std::string> read = context_.read_file(normal, max_text);
    if (!read) {
        error(asked, "cannot read " + in_quotes(normal) + ": " + read.error().text);
        return std::nullopt;
    }
    const std::string key = normal.starts_with('/') ? patterns_.canonical(normal) : normal;
    return Found{key, normal, parent_of(normal), std::move(*read)};
}

std::optional<RuleFiles::Found> RuleFiles::find_profile(const std::string& name, const Source& asked) {
    if (profile_text_)
        if (std::optional<std::string> text = profile_text_(name))
            return Found{"profile " + name, "profile " + name, std::nullopt, std::move(*text)};
    if (const ShippedProfile* profile = find_shipped_profile(name))
        return Found{"profile " + name, "profile " + name, std::nullopt, profile};
    const std::vector<std::string_view> names = shipped_names();
    const bool looked_for = is_profile_name(name) && !context_.config.empty();
    const std::string path = context_.config + "/profiles/" + name + ".json";
    if (looked_for) {
        Expected<std::string> read = context_.read_file(path, max_text);
        if (read) return Found{patterns_.canonical(path), path, parent_of(path), std::move(*read)};
        error(asked, unknown_word("profile", name, names) + " (" + path + ": " + read.error().text + ")");
    } else {
        error(asked, unknown_word("profile", name, names));
    }
    return std::nullopt;
}

std::optional<RuleFiles::Found> RuleFiles::find_extended(const std::string& name, const RuleFile& from,
                                                         const Source& asked) {
    if (!is_file_name(name)) return find_profile(name, asked);
    Expected<std::string> path = patterns_.expand_literal(name, true);
    if (!path) {
        error(asked, in_quotes(name) + ": " + path.error().text);
        return std::nullopt;
    }
    if (!path->starts_with('/')) {
        if (!from.directory) {
            error(asked, in_quotes(name) + ": a relative name means nothing here: expected an absolute one");
            return std::nullopt;
        }
        path = *from.directory + '/' + *path;
    }
    return find_file(*path, asked);
}

const RuleFile* RuleFiles::include(Found found, const Source& asked) {
    const auto on_the_way =
        std::find_if(open_.begin(), open_.end(), [&](const auto& one) { return one.first == found.key; });
    if (on_the_way != open_.end()) {
        std::string cycle;
        for (auto one = on_the_way; one != open_.end(); ++one) cycle += one->second + " -> ";
        error(asked, "rule files extend each other: " + cycle + found.label);
        return nullptr;
    }
    if (const auto known = known_.find(found.key); known != known_.end()) return known->second;
    if (files_.size() == max_files) {
        error(asked, "more than " + std::to_string(max_files) + " rule files");
        return nullptr;
    }
    if (found.directory) paths_.push_back(found.label);
    RuleFile& file = *files_.emplace_back(std::make_unique<RuleFile>());
    known_[found.key] = &file;
    file.label = found.label;
    file.directory = found.directory;
    const ShippedProfile* const* shipped = std::get_if<const ShippedProfile*>(&found.text);
    file.parsed = shipped != nullptr
                      ? parse_rules(**shipped, found.label, patterns_, diagnostics_)
                      : parse_rules(std::get<std::string>(found.text), found.label, patterns_, diagnostics_);
    open_.emplace_back(found.key, found.label);
    for (const ParsedExtend& one : file.parsed.extends) {
        const Source at{file.label, one.line, one.column};
        std::optional<Found> next = find_extended(one.name, file, at);
        const RuleFile* extended = next ? include(std::move(*next), at) : nullptr;
        if (extended != nullptr) file.extends.push_back(extended);
    }
    open_.pop_back();
    inherit(file);
    return &file;
}

void RuleFiles::inherit(RuleFile& file) {
    file.limits = file.parsed.limits;
    file.sni = file.parsed.sni;
    for (const RuleFile* one : file.extends) {
        file.limits = file.limits.tighter(one->limits);
        merge_environment(one->environment, file.environment);
        file.sni = file.sni || one->sni;
        if (one->fallback) file.fallback = std::max(file.fallback.value_or(Action::allow), *one->fallback);
    }
    merge_environment(file.parsed.environment, file.environment);
    if (file.parsed.fallback) file.fallback = file.parsed.fallback;
}

const RuleFile* RuleFiles::add(const RuleSources::File& part) {
    std::optional<Found> found = find_file(part.path, {});
    return found ? include(std::move(*found), {}) : nullptr;
}

const RuleFile* RuleFiles::add(const RuleSources::Profile& part) {
    std::optional<Found> found = find_profile(part.name, {});
    return found ? include(std::move(*found), {}) : nullptr;
}

const RuleFile* RuleFiles::add(const RuleSources::Text& part) {
    // Two texts may share a label: each counts as a separate file.
    return include({"text " + std::to_string(files_.size()), part.label, std::nullopt, part.json}, {});
}

}  // namespace callgate::rules
