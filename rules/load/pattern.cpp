#include "rules/load/pattern.hpp"

#include <algorithm>
#include <array>

#include "base/md5.hpp"
#include "rules/model/address.hpp"
#include "rules/model/glob_program.hpp"

namespace callgate::rules {
namespace {

constexpr std::string_view expected_start =
    "expected a pattern that begins with \"/\", \"~/\", \"${...}\" or \"**/\"";

std::string trimmed(std::string_view path) {
    while (path.ends_with('/')) path.remove_suffix(1);
    return std::string(path);
}

/// The repository's places: those of the run that is looked at again, else this host's.
std::string repository(const LoadContext& context, std::string LoadContext::*now,
                       std::string LoadSnapshot::*then) {
    std::string value = context.earlier != nullptr ? context.earlier->*then : context.*now;
    return value.empty() ? std::string(nowhere) : trimmed(value);
}

/// The directories above `path` but the root, as one pattern. Of those above a very deep one the nearest.
std::string above(std::string_view path) {
    constexpr std::size_t max_bytes = 2048;
    std::string names;
    for (std::size_t slash = path.rfind('/');
         slash != std::string_view::npos && slash > 0 && names.size() + slash < max_bytes;
         slash = path.rfind('/', slash - 1))
        (names += names.empty() ? "" : ",") += quote_glob(path.substr(1, slash - 1));
    return names.empty() ? std::string(nowhere) : "/{" + names + '}';
}

/// LibreOffice's number for its settings in `${tmp}/libreoffice`: MD5 of the address in UTF-16, each byte
/// without leading zeros. "-" if the directory is not known, or no plain name.
std::string office_number(const std::string& tmp) {
    const auto plain = [](char one) {
        return (one >= '0' && one <= '9') || (one >= 'a' && one <= 'z') || (one >= 'A' && one <= 'Z') ||
               one == '/' || one == '-' || one == '_' || one == '.';
    };
    if (tmp.empty() || !std::ranges::all_of(tmp, plain)) return "-";
    std::string units;
    for (const char one : "file://" + tmp + "/libreoffice") (units += one) += '\0';
    constexpr std::string_view digits = "0123456789abcdef";
    std::string number;
    for (const std::uint8_t byte : md5(units)) {
        if (byte >= digits.size()) number += digits[byte / digits.size()];
        number += digits[byte % digits.size()];
    }
    return number;
}

bool begins_well(std::string_view pattern) {
    return pattern.starts_with('/') || pattern.starts_with('~') || pattern.starts_with("${") ||
           pattern.starts_with("**/");
}

}  // namespace

std::string quote_glob(std::string_view literal) {
    const auto means_something = [](char byte) { return is_wildcard(byte) || byte == ','; };
    if (std::none_of(literal.begin(), literal.end(), means_something)) return std::string(literal);
    std::string result;
    result.reserve(literal.size() + 8);
    for (const char byte : literal) {
        if (means_something(byte)) result += '\\';
        result += byte;
    }
    return result;
}

std::optional<std::string> option_pattern(std::string_view literal) {
    if (literal.find("${") != std::string_view::npos || literal.find('\0') != std::string_view::npos)
        return std::nullopt;
    return quote_glob(literal);
}

PatternMaker::PatternMaker(const LoadContext& context)
    : context_(context),
      variables_{
          {{"workdir", trimmed(context.workdir), {}},
           {"home", trimmed(context.home), {}},
           {"tmp", trimmed(context.tmp), {}},
           {"config", trimmed(context.config), {}},
           {"git-common", repository(context, &LoadContext::git_common, &LoadSnapshot::git_common), {}},
           {"git-admin", repository(context, &LoadContext::git_admin, &LoadSnapshot::git_admin), {}},
           {"office", office_number(trimmed(context.tmp)), {}},
           {"above", trimmed(context.workdir), {}}}},
      user_home_(quote_glob(trimmed(context.user_home))),
      account_home_(quote_glob(trimmed(context.account_home))) {
    for (Variable& one : variables_) one.quoted = quote_glob(one.value);
    Variable& last = variables_.back();
    last.quoted = above(last.value);
    last.value.resize(std::min(last.value.rfind('/'), last.value.size()));
}

Expected<const PatternMaker::Variable*> PatternMaker::variable(std::string_view name) const {
    const std::array<const std::string*, 4> given{&context_.workdir, &context_.home, &context_.tmp,
                                                  &context_.config};
    std::array<std::string_view, std::tuple_size_v<decltype(variables_)>> names;
    for (std::size_t index = 0; index < variables_.size(); ++index) {
        names[index] = variables_[index].name;
        if (names[index] != name) continue;
        if (index >= given.size() || !given[index]->empty()) return &variables_[index];
        const bool of_home = name == "home" || name == "config";
        return Problem{"${" + std::string(name) + "} is not known here" + (of_home ? " (set HOME)" : "")};
    }
    const std::optional<std::string> near = nearest(name, names);
    return Problem{
        "unknown variable ${" + std::string(name.substr(0, 40)) + "}: " +
        (near ? "did you mean ${" + *near + "}?"
              : "expected ${workdir}, ${above}, ${home}, ${tmp}, ${config}, ${office}, ${git-common} or "
                "${git-admin}")};
}

namespace {

/// Whether an odd number of backslashes stands before `at`, none of them before `first`.
bool is_quoted(std::string_view text, std::size_t first, std::size_t at) {
    std::size_t count = 0;
    while (at > first && text[at - 1] == '\\') --at, ++count;
    return count % 2 == 1;
}

}  // namespace

Expected<std::string> PatternMaker::substitute(std::string_view text, bool tilde, bool quote) const {
    std::string result;
    result.reserve(text.size() + context_.home.size() + context_.workdir.size());
    const auto put = [&](std::string_view name) -> Expected<void> {
        const Expected<const Variable*> found = variable(name);
        if (!found) return found.error();
        result += quote ? (*found)->quoted : (*found)->value;
        return {};
    };
    std::size_t at = 0;
    if (tilde && text.starts_with('~')) {
        if (text.size() > 1 && text[1] != '/')
            return Problem{"homes of other users are not known: expected \"~/\""};
        if (const Expected<void> done = put("home"); !done) return done.error();
        at = 1;
    }
    while (true) {
        const std::size_t begin = text.find("${", at);
        result += text.substr(at, begin - at);
        if (begin == std::string_view::npos) return result;
        // A quoted byte is copied with its quote, so that "\${" stays text.
        if (quote && is_quoted(text, at, begin)) {
            result += '$';
            at = begin + 1;
            continue;
        }
        const std::size_t end = text.find('}', begin);
        if (end == std::string_view::npos) return Problem{"a \"${\" is not closed by \"}\""};
        if (const Expected<void> done = put(text.substr(begin + 2, end - begin - 2)); !done)
            return done.error();
        at = end + 1;
    }
}

Expected<std::string> PatternMaker::expand_literal(std::string_view text, bool tilde) const {
    return substitute(text, tilde, false);
}

/// Looks at a path whose directory is canonical.
PatternMaker::Place PatternMaker::look(const std::string& path) {
    if (auto then = context_.earlier != nullptr ? context_.earlier->led(path) : std::nullopt)
        return {std::move(then), false};
    const FileTree::Kind kind = context_.tree != nullptr ? context_.tree->kind(path) : FileTree::Kind::file;
    const bool link =
        kind == FileTree::Kind::file && (context_.tree == nullptr || context_.tree->may_be_link(path));
    if (!link) return {std::nullopt, kind == FileTree::Kind::absent};
    std::string real = context_.canonical(path);
    if (real == path) return {};
    links_.emplace(path, real);
    return {std::move(real), false};
}

/// Looks at an entry of a directory that is known.
PatternMaker::Place PatternMaker::look_at(const std::string& path, const Place& parent,
                                          std::string_view parent_path) {
    if (!parent.elsewhere) return parent.absent ? Place{std::nullopt, true} : look(path);
    std::string where = *parent.elsewhere == "/" ? "" : *parent.elsewhere;
    where += std::string_view(path).substr(parent_path.size());
    Place found = parent.absent ? Place{std::nullopt, true} : look(where);
    if (!found.elsewhere && where != path) found.elsewhere = std::move(where);
    return found;
}

PatternMaker::Place PatternMaker::place(const std::string& path) {
    const std::size_t slash = path.rfind('/');
    if (path == "/" || slash == std::string::npos) return {};
    if (slash == 0) return look_at(path, {}, "");
    const std::string_view above = std::string_view(path).substr(0, slash);
    const Place& parent = parent_place(above);
    return look_at(path, parent, above);
}

/// Each directory is looked up once: hundreds of patterns share a few directories, and most of the named
/// objects do not exist.
const PatternMaker::Place& PatternMaker::parent_place(std::string_view directory) {
    if (last_parent_ != nullptr && last_parent_->first == directory) return last_parent_->second;
    auto known = parents_.find(directory);
    if (known == parents_.end()) {
        std::string path(directory);
        Place found = place(path);
        known = parents_.emplace(std::move(path), std::move(found)).first;
    }
    last_parent_ = &*known;
    return known->second;
}

std::string PatternMaker::canonical(const std::string& path) {
    if (!context_.canonical) return path;
    return place(path).elsewhere.value_or(path);
}

std::vector<Cidr> PatternMaker::own_blocks() {
    if (!own_) {
        const std::string name(own_name_of_host);
        if (context_.earlier != nullptr && context_.earlier->hosts.contains(name))
            own_ = context_.earlier->hosts.at(name);
        else
            own_ = context_.own_addresses ? context_.own_addresses() : std::vector<IpAddress>();
    }
    IpAddress six;
    six.v6 = true;
    six.bytes[15] = 1;
    std::vector<Cidr> blocks{{make_ipv4(std::array<std::uint8_t, 4>{127, 0, 0, 0}), 8}, {six, 128}};
    for (const IpAddress& one : *own_) blocks.push_back({one, one.v6 ? 128 : 32});
    return blocks;
}

Expected<void> PatternMaker::count_alternatives(const Glob& glob) {
    alternatives_ += glob.branches().size();
    if (alternatives_ <= max_alternatives) return {};
    return Problem{"the patterns together have more than " + std::to_string(max_alternatives) +
                   " alternatives"};
}

Expected<void> PatternMaker::make(std::string_view pattern, bool unix_socket, std::vector<Glob>& into) {
    if (alternatives_ > max_alternatives) return Problem{"too many patterns"};
    if (unix_socket && pattern.starts_with('@')) {
        const Expected<std::string> name = substitute(pattern, false, true);
        if (!name) return name.error();
        Expected<Glob> glob = Glob::compile(*name, GlobKind::text);
        if (!glob) return glob.error();
        if (const Expected<void> counted = count_alternatives(*glob); !counted) return counted;
        into.push_back(std::move(*glob));
        return {};
    }
    if (!begins_well(pattern))
        return Problem{std::string(expected_start) +
                       (unix_socket ? ", or with \"@\" for the abstract namespace" : "")};
    Expected<std::string> text = substitute(pattern, true, true);
    if (!text) return text.error();
    const std::string_view written = text->empty() ? std::string_view("/") : *text;
    if (const Expected<void> made = make_text(written, into); !made) return made;
    const bool in_home = pattern == "~" || pattern.starts_with("~/");
    if (!in_home) return {};
    const auto in_other = [&](const std::string& home, bool meant) -> Expected<void> {
        return meant ? make_text(home + text->substr(variables_[1].quoted.size()), into) : Expected<void>();
    };
    const bool users = homes_ != Homes::own && !context_.user_home.empty();
    if (const Expected<void> made = in_other(user_home_, users); !made) return made;
    return in_other(account_home_, homes_ == Homes::all && !context_.account_home.empty());
}

Expected<void> PatternMaker::make_text(std::string_view text, std::vector<Glob>& into) {
    Expected<Glob> glob = Glob::compile(text, GlobKind::path);
    if (!glob) return glob.error();
    if (const Expected<void> counted = count_alternatives(*glob); !counted) return counted;
    const std::vector<Glob::Branch>& branches = glob->branches();  // they stay where they are
    into.push_back(std::move(*glob));
    for (const Glob::Branch& branch : branches) {
        if (!context_.canonical) break;
        const std::optional<std::string> resolved = place(branch.head).elsewhere;
        if (!resolved || *resolved == branch.head) continue;
        const std::string beside = (*resolved == "/" ? "" : quote_glob(*resolved)) + branch.remainder;
        Expected<Glob> other = Glob::compile(beside.empty() ? "/" : beside, GlobKind::path);
        if (!other) return other.error();
        into.push_back(std::move(*other));
    }
    return {};
}

}  // namespace callgate::rules
