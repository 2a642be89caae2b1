#include "supervisor/calls/files/git_config.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <vector>

#include "base/test_switch.hpp"
#include "base/words.hpp"
#include "supervisor/calls/files/git_config_text.hpp"

namespace callgate::calls {

namespace {

using Line = GitConfigLine;

// ---- The list ----

bool is_printable(std::string_view text) {
    return std::ranges::none_of(
        text, [](char one) { return static_cast<unsigned char>(one) < 0x20 || one == 0x7f; });
}

/// A name of a remote that is no URL, path or option.
bool is_remote_name(std::string_view text) {
    const auto fits = [](char one) { return is_git_name(one) || one == '_' || one == '.'; };
    return !text.empty() && text.front() != '-' && text.front() != '.' && text.size() <= 200 &&
           std::ranges::all_of(text, fits);
}

/// git-check-ref-format(1), for ASCII; a `*` where `pattern` is set.
bool is_reference(std::string_view text, bool pattern = false) {
    if (!text.starts_with("refs/") || text.ends_with('/') || text.ends_with('.') || text.ends_with(".lock"))
        return false;
    for (const std::string_view wrong : {"..", "//", "/.", "@{", ".lock/"})
        if (text.find(wrong) != std::string_view::npos) return false;
    if (std::ranges::count(text, '*') > (pattern ? 1 : 0)) return false;
    return std::ranges::all_of(text, [](char one) {
        const auto byte = static_cast<unsigned char>(one);
        return byte > 0x20 && byte != 0x7f &&
               std::string_view("~^:?[\\\"").find(one) == std::string_view::npos;
    });
}

/// Facts against which the wanted settings are held.
struct HeldAgainst {
    const GitConfigRights& rights;
    std::vector<std::string> remotes;  // with a URL
};

/// https, ssh and git with a host, or the short form of ssh (`user@host:path`); or a local repository where
/// the run writes nothing. No other helper: `ext::` runs a command.
bool is_url(const Line&, std::string_view text, const HeldAgainst& wanted) {
    const auto fits = [](char one) { return one > 0x20 && one < 0x7f; };
    if (text.starts_with('/')) return is_printable(text) && wanted.rights.closed(text);
    if (text.size() > 4096 || !std::ranges::all_of(text, fits)) return false;
    std::string_view host;
    bool known = false;
    for (const std::string_view scheme : {"https://", "ssh://", "git://"}) {
        if (!text.starts_with(scheme)) continue;
        known = true;
        host = text.substr(scheme.size());
        host = host.substr(0, host.find_first_of("/?#"));
    }
    const std::size_t colon = text.find_first_of(":/");
    if (!known && (colon == std::string_view::npos || text[colon] == '/' ||
                   text.substr(colon).starts_with("::") || text.substr(colon).starts_with("://")))
        return false;
    if (!known) host = text.substr(0, colon);
    const std::size_t user = host.rfind('@');
    const std::string_view name = user == std::string_view::npos ? host : host.substr(user + 1);
    return !name.empty() && name.front() != '-' && !host.starts_with('-');
}

/// A fetch lands among the remote's own names, or is one tag.
bool is_fetch(const Line& line, std::string_view text, const HeldAgainst&) {
    if (text.starts_with('+')) text.remove_prefix(1);
    const std::size_t colon = text.find(':');
    if (colon == std::string_view::npos) return false;
    const std::string_view from = text.substr(0, colon), to = text.substr(colon + 1);
    if (!is_reference(from, true) || !is_reference(to, true)) return false;
    if (from == to) return from.starts_with("refs/tags/") && is_reference(from);
    return to.starts_with("refs/remotes/" + line.section.subsection.value_or("") + '/') &&
           std::ranges::count(from, '*') == std::ranges::count(to, '*');
}

/// A URL or path in its place would be used as one.
bool is_known_remote(const Line&, std::string_view text, const HeldAgainst& wanted) {
    return text == "." || std::ranges::find(wanted.remotes, text) != wanted.remotes.end();
}
bool is_merge(const Line&, std::string_view text, const HeldAgainst&) { return is_reference(text); }
bool is_text(const Line&, std::string_view text, const HeldAgainst&) { return is_printable(text); }
bool is_word(const Line&, std::string_view text, const HeldAgainst&) {
    return has_word("true false always 0 1 sha1 sha256 files reftable --tags --no-tags merges interactive",
                    text) ||
           text.empty();
}
bool is_filter(const Line&, std::string_view text, const HeldAgainst&) {
    return !text.empty() &&
           std::ranges::all_of(text, [](char one) { return is_git_name(one) || one == ':' || one == '='; });
}

struct Listed {
    enum class When : std::uint8_t {
        always,
        if_absent,      // what is there stays
        if_remote_new,  // there is no remote of this name
        if_own          // what `git init` and `git clone` write
    };
    std::string_view section, key;
    bool named;  // has a subsection
    When when;
    bool (*fits)(const Line&, std::string_view value, const HeldAgainst&);
};

using When = Listed::When;
constexpr Listed list[] = {
    {"core", "repositoryformatversion", false, When::if_own, is_word},
    {"core", "filemode", false, When::if_own, is_word},
    {"core", "bare", false, When::if_own, is_word},
    {"core", "logallrefupdates", false, When::if_own, is_word},
    {"core", "symlinks", false, When::if_own, is_word},
    {"core", "ignorecase", false, When::if_own, is_word},
    {"extensions", "objectformat", false, When::if_own, is_word},
    {"extensions", "refstorage", false, When::if_own, is_word},
    {"extensions", "partialclone", false, When::if_own, is_known_remote},
    {"remote", "promisor", true, When::if_own, is_word},
    {"remote", "partialclonefilter", true, When::if_own, is_filter},
    {"remote", "tagopt", true, When::if_own, is_word},
    {"remote", "url", true, When::if_remote_new, is_url},
    {"remote", "fetch", true, When::if_absent, is_fetch},
    {"branch", "remote", true, When::if_absent, is_known_remote},
    {"branch", "merge", true, When::if_absent, is_merge},
    {"branch", "rebase", true, When::if_absent, is_word},
    {"submodule", "active", false, When::if_own, is_text},
    {"submodule", "url", true, When::if_absent, is_url},
    {"submodule", "active", true, When::if_absent, is_word},
    {"lfs", "repositoryformatversion", false, When::if_absent, is_word},
    {"user", "name", false, When::always, is_text},
    {"user", "email", false, When::always, is_text},
};

const Listed* listed(const Line& line) {
    const std::string section = lower_case(line.section.name), key = lower_case(line.key);
    const auto* const found = std::ranges::find_if(list, [&](const Listed& one) {
        return one.section == section && one.key == key && one.named == line.section.subsection.has_value();
    });
    if (found == std::end(list)) return nullptr;
    if (section == "remote" && !is_remote_name(*line.section.subsection)) return nullptr;
    return found;
}

// ---- Comparing ----

using Settings = std::vector<const Line*>;

Settings settings_of(const std::vector<Line>& lines) {
    Settings found;
    for (const Line& line : lines)
        if (line.kind == Line::Kind::setting) found.push_back(&line);
    return found;
}

std::string shown(const std::string& key) {
    constexpr std::size_t most = 80;
    std::string text = key.substr(0, most);
    for (char& one : text)
        if (static_cast<unsigned char>(one) < 0x20 || static_cast<unsigned char>(one) > 0x7e) one = '?';
    return key.size() > most ? text + "..." : text;
}

/// Each byte that is not printable ASCII, and what ends or begins an escape, by its number.
std::string in_quotes(std::string_view value) {
    constexpr std::string_view digits = "0123456789abcdef";
    std::string text = "\"";
    for (const char one : value) {
        const auto byte = static_cast<unsigned char>(one);
        if (byte >= 0x20 && byte <= 0x7e && one != '"' && one != '\\')
            text += one;
        else
            text += {'\\', 'x', digits[byte >> 4U], digits[byte & 15U]};
    }
    return text + '"';
}

std::string values_of(const Settings& settings) {
    std::string text;
    for (const Line* one : settings)
        text += (text.empty() ? "" : ", ") + (one->value ? in_quotes(*one->value) : "no value");
    return text.empty() ? "nothing" : text;
}

/// Adds the change of one key to what a person is asked; returns why not, or "".
std::string ask(GitConfigChange& change, const Settings& was, const Settings& is, std::string why) {
    constexpr std::size_t most = 8, most_bytes = 4096;
    const Line& line = is.empty() ? *was.front() : *is.front();
    const std::string section = lower_case(line.section.name);
    // A name with spaces or quotes could look like a value.
    if (section == "branch" && !is_reference("refs/heads/" + *line.section.subsection)) return why;
    if (section != "branch" && section != "remote") return why;
    change.asked.push_back(line.full_key() + ": " + values_of(was) + " -> " + values_of(is));
    std::size_t bytes = 0;
    for (const std::string& one : change.asked) bytes += one.size();
    if (change.asked.size() > most || bytes > most_bytes)
        return "more settings would change than a person can be asked about at once";
    if (change.unasked.empty()) change.unasked = std::move(why);
    return {};
}

bool includes_others(const Settings& settings) {
    return std::ranges::any_of(settings, [](const Line* line) {
        const std::string section = lower_case(line->section.name);
        return section == "include" || section == "includeif";
    });
}

bool same(const Line* one, const Line* other) {
    return one->value == other->value && one->full_key() == other->full_key();
}

/// The first setting that is not on the list and not as it was; "": there is none.
std::string other_change(const Settings& before, const Settings& wanted) {
    Settings was, is;
    std::ranges::copy_if(before, std::back_inserter(was), [](const Line* one) { return !listed(*one); });
    std::ranges::copy_if(wanted, std::back_inserter(is), [](const Line* one) { return !listed(*one); });
    const auto [there, here] = std::ranges::mismatch(was, is, same);
    if (here != is.end()) return (*here)->full_key();
    return there != was.end() ? (*there)->full_key() : std::string();
}

/// Why these settings of one key may not take the place of those; "": they may.
std::string refused(const Settings& was, const Settings& is, const Settings& before,
                    const HeldAgainst& wanted, GitConfigChange& change) {
    if (std::ranges::equal(was, is, same)) return {};
    const Line& line = is.empty() ? *was.front() : *is.front();
    const Listed& rule = *listed(line);
    const std::string key = shown(line.full_key());
    std::string there;
    if (!wanted.rights.own) {
        if (rule.when == When::if_own)
            return "a run may not change " + key + " of a repository that was there before";
        const bool known = std::ranges::any_of(before, [&](const Line* one) {
            return lower_case(one->section.name) == "remote" &&
                   one->section.subsection == line.section.subsection;
        });
        if (rule.when == When::if_remote_new && known) there = "the remote of " + key + " is there already";
        if (!was.empty() && rule.when != When::always) there = key + " is there already, and would change";
    }
    if (is.size() > 1 && rule.key != "fetch") return key + " is there more than once";
    for (const Line* one : is)
        if (!one->value || !rule.fits(*one, *one->value, wanted))
            return "the value of " + key + " is not one that a run may set";
    return there.empty() || !check_enabled("git-asked") ? std::string()
                                                        : ask(change, was, is, std::move(there));
}

/// Why the settings may not take the place of those that were; "": they may.
std::string refused(const Settings& was, const Settings& is, const GitConfigRights& rights,
                    GitConfigChange& change) {
    if (includes_others(was) || includes_others(is)) return "it includes another file";
    if (const std::string key = other_change(was, is); !key.empty())
        return shown(key) + " is no setting that a run may change";
    HeldAgainst held{rights, {}};
    std::map<std::string, std::pair<Settings, Settings>> keys;
    for (const Line* one : was)
        if (listed(*one)) keys[one->full_key()].first.push_back(one);
    for (const Line* one : is) {
        if (!listed(*one)) continue;
        keys[one->full_key()].second.push_back(one);
        if (lower_case(one->section.name) == "remote" && lower_case(one->key) == "url")
            held.remotes.push_back(*one->section.subsection);
    }
    for (const auto& [key, both] : keys)
        if (std::string why = refused(both.first, both.second, was, held, change); !why.empty()) return why;
    return {};
}

}  // namespace

bool is_git_config(std::string_view path) {
    return path.ends_with("/config") || path.ends_with("/config.worktree");
}

GitConfigChange git_config_change(std::string_view before, std::string_view wanted,
                                  const GitConfigRights& rights) {
    const auto old_lines = parse_git_config(before), new_lines = parse_git_config(wanted);
    if (!new_lines) return {{}, "the new text is not in the plain form that git writes"};
    if (!old_lines) return {{}, "the file that is there is not in the plain form that git writes"};
    const Settings was = settings_of(*old_lines), is = settings_of(*new_lines);
    GitConfigChange change;
    if (std::string why = check_enabled("git-settings") ? refused(was, is, rights, change) : std::string();
        !why.empty())
        return {{}, std::move(why)};
    change.text = git_config_text(*new_lines);
    return change;
}

}  // namespace callgate::calls
