#include "rules/model/glob.hpp"

#include <algorithm>
#include <array>

#include "base/made_once.hpp"
#include "rules/model/glob_program.hpp"

namespace callgate::rules {

struct Glob::Compiled {
    std::string written;  // "" where `joined` is the text
    GlobKind kind = GlobKind::path;
    bool can_match = true;
    std::vector<Branch> branches;
    /// The program of each branch; those of literal branches and whole hierarchies have no tokens. Many
    /// patterns are never matched: their expansion replaces them, or no request touches their heads. So
    /// programs are made on demand.
    MadeOnce<std::vector<GlobProgram>> programs;
    /// The text of a pattern that is one branch, without quotes. Most texts are never asked for.
    MadeOnce<std::string> joined;

    [[nodiscard]] const std::string& text() const {
        if (!written.empty()) return written;
        return joined.get([this] { return branches.front().head + branches.front().remainder; });
    }
    void add_text(const GlobElements& elements);
    /// `head` is empty or in the kernel's form; `elements` follow it.
    void add_path(std::string_view head, const GlobElements& elements);
    void add_head(std::string_view head, bool hierarchy);
    [[nodiscard]] std::vector<GlobProgram> make_programs() const;
    [[nodiscard]] const GlobProgram& program(std::size_t branch) const {
        return programs.get([this] { return make_programs(); })[branch];
    }
};

namespace {

using Kind = GlobElement::Kind;

bool is_literal(GlobComponent elements) {
    return std::all_of(elements.begin(), elements.end(),
                       [](const GlobElement& element) { return element.kind == Kind::byte; });
}

std::string literal_bytes(GlobComponent elements) {
    std::string bytes;
    bytes.reserve(elements.size());
    for (const GlobElement& element : elements) bytes += element.byte;
    return bytes;
}

/// The components of a path pattern, without empty ones and repeated `**`.
std::vector<GlobComponent> split_components(const std::vector<GlobElement>& elements) {
    const auto is_slash = [](const GlobElement& element) {
        return element.kind == Kind::byte && element.byte == '/';
    };
    std::vector<GlobComponent> components;
    for (auto first = elements.begin(); first != elements.end();) {
        const auto end = std::find_if(first, elements.end(), is_slash);
        const GlobComponent component(first, end);
        const bool repeated =
            !components.empty() && is_double_star(component) && is_double_star(components.back());
        if (!component.empty() && !repeated) components.push_back(component);
        first = end == elements.end() ? end : end + 1;
    }
    return components;
}

/// The part of `path` after `head`, "" if they are equal. Nothing if `path` is neither `head` nor beneath it.
std::optional<std::string_view> rest_beneath(std::string_view path, std::string_view head) {
    if (head == "/") {
        if (!path.starts_with('/')) return std::nullopt;
        return path.size() == 1 ? path.substr(1) : path;
    }
    if (!path.starts_with(head)) return std::nullopt;
    const std::string_view rest = path.substr(head.size());
    if (!rest.empty() && rest.front() != '/') return std::nullopt;
    return rest;
}

std::string_view without_final_slashes(std::string_view path) {
    while (path.size() > 1 && path.ends_with('/')) path.remove_suffix(1);
    return path;
}

}  // namespace

void Glob::Compiled::add_text(const GlobElements& elements) {
    Branch branch;
    branch.literal = is_literal(elements.list);
    if (branch.literal)
        branch.head = literal_bytes(elements.list);
    else
        append_pattern_text(elements.list, elements.sets, branch.remainder);
    branches.push_back(std::move(branch));
}

void Glob::Compiled::add_path(std::string_view head, const GlobElements& elements) {
    const std::vector<GlobComponent> components = split_components(elements.list);
    const auto wild = std::find_if_not(components.begin(), components.end(), is_literal);
    Branch branch;
    branch.head.reserve(head.size() + elements.list.size() + 1);
    branch.head = head;
    for (auto component = components.begin(); component != wild; ++component) {
        branch.head += '/';
        for (const GlobElement& element : *component) branch.head += element.byte;
    }
    if (branch.head.empty()) branch.head = "/";
    const std::span<const GlobComponent> remainder(wild, components.end());
    branch.remainder.reserve(elements.list.size() + 1);
    for (const GlobComponent component : remainder) {
        branch.remainder += '/';
        append_pattern_text(component, elements.sets, branch.remainder);
    }
    branch.literal = remainder.empty();
    branch.hierarchy = remainder.size() == 1 && is_double_star(remainder.front());
    branches.push_back(std::move(branch));
    const bool relative = std::any_of(components.begin(), components.end(), [](GlobComponent component) {
        return component.size() <= 2 &&
               std::all_of(component.begin(), component.end(), [](const GlobElement& element) {
                   return element.kind == Kind::byte && element.byte == '.';
               });
    });
    can_match = can_match || !relative;
}

void Glob::Compiled::add_head(std::string_view head, bool hierarchy) {
    Branch& branch = branches.emplace_back();
    branch.head = head;
    branch.literal = !hierarchy;
    branch.hierarchy = hierarchy;
    if (hierarchy) branch.remainder = "/**";
}

/// Remainders identify the rest of a branch: equal ones come from equal elements.
std::vector<GlobProgram> Glob::Compiled::make_programs() const {
    std::vector<GlobProgram> all;
    all.reserve(branches.size());
    for (const Branch& branch : branches) {
        GlobProgram& program = all.emplace_back();
        if (branch.literal || branch.hierarchy) continue;
        const GlobElements elements = parse_elements(branch.remainder, kind).value();
        if (kind == GlobKind::text)
            program = GlobProgram::for_text(elements);
        else
            program = GlobProgram::for_components(split_components(elements.list), elements.sets);
    }
    return all;
}

namespace {

/// Whether the component is absent from resolved paths: empty, "." or "..".
bool is_dropped(std::string_view component) {
    return component.size() <= 2 &&
           std::all_of(component.begin(), component.end(), [](char byte) { return byte == '.'; });
}

/// Whether `path` is absolute, holds no wildcard byte, and is in the kernel's form.
bool is_plain_path(std::string_view path) {
    if (path.size() < 2 || path.front() != '/' || path.size() > max_pattern) return false;
    static const auto is_name_byte = [] {
        std::array<bool, 256> table{};
        for (unsigned byte = 1; byte < table.size(); ++byte)
            table[byte] = byte != '/' && !is_wildcard(static_cast<char>(byte));
        return table;
    }();
    for (std::size_t first = 1;; ++first) {  // of the current component
        std::size_t end = first;
        while (end < path.size() && is_name_byte[static_cast<unsigned char>(path[end])]) ++end;
        if (end != path.size() && path[end] != '/') return false;
        if (is_dropped(path.substr(first, end - first))) return false;
        if (end == path.size()) return true;
        first = end;
    }
}

/// A pattern that is one plain path, or everything beneath one.
struct PlainPattern {
    std::string_view head;
    bool hierarchy = false;
};

std::optional<PlainPattern> plain_pattern(std::string_view pattern) {
    PlainPattern plain{pattern, pattern.ends_with("/**")};
    if (plain.hierarchy) plain.head.remove_suffix(3);
    if (!is_plain_path(plain.head)) return std::nullopt;
    return plain;
}

/// The length of the plain path at the start of a pattern without braces, up to a '/'. Nothing if unsure.
std::size_t plain_head(std::string_view pattern) {
    const auto wild = std::find_if(pattern.begin(), pattern.end(), is_wildcard);
    if (wild == pattern.end()) return 0;
    const std::size_t slash = pattern.substr(0, static_cast<std::size_t>(wild - pattern.begin())).rfind('/');
    return slash != std::string_view::npos && is_plain_path(pattern.substr(0, slash)) ? slash : 0;
}

}  // namespace

Expected<Glob> Glob::compile(std::string_view pattern, GlobKind kind) {
    // Most patterns and alternatives are one path or one hierarchy, and need no program.
    const auto plain = [kind](std::string_view text) {
        return kind == GlobKind::path ? plain_pattern(text) : std::nullopt;
    };
    if (const auto whole = plain(pattern)) {
        auto compiled = std::make_shared<Compiled>();
        compiled->add_head(whole->head, whole->hierarchy);
        Glob glob;
        glob.compiled_ = std::move(compiled);
        return glob;
    }
    if (pattern.size() > max_pattern) return Problem{"a pattern is longer than 4096 bytes"};
    if (kind == GlobKind::path && pattern.find('\0') != std::string_view::npos)
        return Problem{"a path cannot hold a NUL byte"};
    const Expected<std::vector<std::string>> alternatives = expand_braces(pattern);
    if (!alternatives) return alternatives.error();
    auto compiled = std::make_shared<Compiled>();
    compiled->written = pattern;
    compiled->kind = kind;
    compiled->can_match = kind == GlobKind::text;
    compiled->branches.reserve(alternatives->size());
    for (const std::string& alternative : *alternatives) {
        if (const auto whole = plain(alternative)) {
            compiled->add_head(whole->head, whole->hierarchy);
            compiled->can_match = true;
            continue;
        }
        const bool anchored =
            alternative.starts_with('/') || alternative.starts_with("**/") || alternative == "**";
        if (kind == GlobKind::path && !anchored) return Problem{"a path pattern begins with `/` or `**/`"};
        const std::size_t head = kind == GlobKind::path ? plain_head(alternative) : 0;
        const Expected<GlobElements> elements =
            parse_elements(std::string_view(alternative).substr(head), kind);
        if (!elements) return elements.error();
        if (kind == GlobKind::text)
            compiled->add_text(*elements);
        else
            compiled->add_path(std::string_view(alternative).substr(0, head), *elements);
    }
    Glob glob;
    glob.compiled_ = std::move(compiled);
    return glob;
}

Glob Glob::literal(std::string_view path) {
    auto compiled = std::make_shared<Compiled>();
    compiled->written = quote_pattern(path);
    compiled->kind = path.starts_with('/') ? GlobKind::path : GlobKind::text;
    compiled->add_head(path, false);
    Glob glob;
    glob.compiled_ = std::move(compiled);
    return glob;
}

Glob Glob::beneath(std::string_view directory) {
    directory = without_final_slashes(directory);
    auto compiled = std::make_shared<Compiled>();
    compiled->written = (directory == "/" ? "" : quote_pattern(directory)) + "/**";
    compiled->add_head(directory, true);
    Glob glob;
    glob.compiled_ = std::move(compiled);
    return glob;
}

void Glob::prepare() const {
    if (compiled_ && !std::ranges::all_of(compiled_->branches,
                                          [](const Branch& one) { return one.literal || one.hierarchy; }))
        static_cast<void>(compiled_->program(0));
}

bool Glob::remainder_matches(std::size_t branch, std::string_view rest) const {
    const Branch& which = compiled_->branches[branch];
    if (which.literal) return rest.empty();
    return which.hierarchy || compiled_->program(branch).matches(rest);
}

bool Glob::matches(std::string_view text) const {
    if (!compiled_) return false;
    for (std::size_t index = 0; index < compiled_->branches.size(); ++index) {
        const Branch& branch = compiled_->branches[index];
        if (branch.literal) {
            if (text == branch.head) return true;
        } else if (compiled_->kind == GlobKind::text) {
            if (compiled_->program(index).matches(text)) return true;
        } else if (const auto rest = rest_beneath(text, branch.head);
                   rest && remainder_matches(index, *rest)) {
            return true;
        }
    }
    return false;
}

const std::string& Glob::text() const {
    static const std::string nothing;
    return compiled_ ? compiled_->text() : nothing;
}

GlobKind Glob::kind() const { return compiled_ ? compiled_->kind : GlobKind::text; }

bool Glob::can_match() const { return compiled_ && compiled_->can_match; }

const std::vector<Glob::Branch>& Glob::branches() const {
    static const std::vector<Branch> none;
    return compiled_ ? compiled_->branches : none;
}

bool Glob::may_match_beneath(std::string_view directory) const {
    if (!compiled_) return false;
    directory = without_final_slashes(directory);
    if (compiled_->kind == GlobKind::text || !directory.starts_with('/')) return true;
    for (std::size_t index = 0; index < compiled_->branches.size(); ++index) {
        const Branch& branch = compiled_->branches[index];
        if (rest_beneath(branch.head, directory)) return true;
        const auto rest = rest_beneath(directory, branch.head);
        if (!rest || branch.literal) continue;
        if (branch.hierarchy || compiled_->program(index).may_match_beneath(*rest)) return true;
    }
    return false;
}

bool Glob::covers_hierarchy(std::string_view directory) const {
    if (!compiled_ || compiled_->kind == GlobKind::text) return false;
    directory = without_final_slashes(directory);
    for (std::size_t index = 0; index < compiled_->branches.size(); ++index) {
        const Branch& branch = compiled_->branches[index];
        const auto rest = rest_beneath(directory, branch.head);
        if (!rest || branch.literal) continue;
        if (branch.hierarchy || compiled_->program(index).covers(*rest)) return true;
    }
    return false;
}

}  // namespace callgate::rules
