#include "supervisor/calls/files/settings_copy.hpp"

#include <algorithm>
#include <array>
#include <boost/property_tree/ptree.hpp>
#include <boost/property_tree/xml_parser.hpp>
#include <cctype>
#include <cstdint>
#include <sstream>
#include <vector>

#include "base/words.hpp"

namespace callgate::calls {

namespace {

enum class Format : std::uint8_t {
    npmrc,
    pip,
    pypirc,
    cargo,
    uv,
    maven,
    nuget,
    yarn,
    yarn_classic,
    go,
    gradle,
    empty,
    empty_json,
    login
};

struct Known {
    std::string_view end;  // of the path, from a slash on
    Format format;
};

constexpr Known known_files[] = {
    {"/.npmrc", Format::npmrc},
    {"/pip.conf", Format::pip},
    {"/.pypirc", Format::pypirc},
    {"/.cargo/config", Format::cargo},
    {"/.cargo/config.toml", Format::cargo},
    {"/uv/uv.toml", Format::uv},
    {"/.m2/settings.xml", Format::maven},
    {"/NuGet/NuGet.Config", Format::nuget},
    {"/.yarnrc.yml", Format::yarn},
    {"/.yarnrc", Format::yarn_classic},
    {"/go/env", Format::go},
    {"/.gradle/gradle.properties", Format::gradle},
    // These hold nothing but credentials.
    {"/.netrc", Format::empty},
    {"/.git-credentials", Format::empty},
    {"/git/credentials", Format::empty},
    {"/.cargo/credentials", Format::empty},
    {"/.cargo/credentials.toml", Format::empty},
    {"/.gem/credentials", Format::empty},
    {"/gem/credentials", Format::empty},
    {"/pypoetry/auth.toml", Format::empty},
    {"/.composer/auth.json", Format::empty_json},
    {"/composer/auth.json", Format::empty_json},
    {"/.profile", Format::login},
    {"/.bash_profile", Format::login},
    {"/.bash_login", Format::login},
};

const Known* known_file(std::string_view path) {
    const auto* const found =
        std::ranges::find_if(known_files, [path](const Known& one) { return path.ends_with(one.end); });
    return found == std::end(known_files) ? nullptr : found;
}

// ---- Keys that say nothing secret. Values are shown without the user part of URLs. ----

constexpr std::string_view npm_keys =
    "registry proxy https-proxy noproxy strict-ssl cafile cache prefix save save-exact save- "
    "prefix engine-strict fund audit loglevel progress legacy-peer-deps package-lock fetch- "
    "retries fetch-timeout fetch-retry-mintimeout fetch-retry-maxtimeout maxsockets prefer- "
    "offline offline omit include optional ignore-scripts script-shell node-linker shamefully- "
    "hoist hoist hoist-pattern public-hoist-pattern strict-peer-dependencies auto-install-peers "
    "store-dir update-notifier color workspaces install-links install-strategy before min- "
    "release-age tag access always-auth";
constexpr std::string_view pip_keys =
    "index-url extra-index-url find-links no-index trusted-host timeout retries cert proxy "
    "require-virtualenv disable-pip-version-check no-cache-dir only-binary no-binary prefer- "
    "binary pre format use-pep517 break-system-packages progress-bar quiet verbose user cache- "
    "dir no-build-isolation constraint upgrade-strategy require-hashes no-color no-input no- "
    "warn-script-location no-compile index-servers repository";
constexpr std::string_view uv_keys =
    "index-url extra-index-url find-links no-index index name url default explicit format "
    "index-strategy keyring-provider native-tls offline no-cache cache-dir python-preference "
    "python-downloads resolution prerelease link-mode compile-bytecode exclude-newer no-binary "
    "no-build no-build-isolation allow-insecure-host concurrent-downloads required-version "
    "preview";
constexpr std::string_view cargo_keys =
    "registry replace-with directory local-registry git branch tag rev index default protocol "
    "proxy timeout cainfo proxy-cainfo check-revoke low-speed-limit multiplexing ssl-version "
    "retry git-fetch-with-cli offline jobs rustc rustc-wrapper rustdoc target target-dir "
    "rustflags rustdocflags incremental linker runner ar opt-level debug lto codegen-units "
    "panic strip split-debuginfo debug-assertions overflow-checks rpath inherits quiet verbose "
    "color when width unicode hyperlinks root vcs frequency keep-going browser resolver "
    "incompatible-rust-versions pre-release default-members paths";
constexpr std::string_view yarn_keys =
    "npmRegistryServer npmPublishRegistry npmScopes npmRegistries nodeLinker yarnPath "
    "enableTelemetry enableGlobalCache cacheFolder globalFolder httpProxy httpsProxy "
    "enableStrictSsl caFilePath httpsCaFilePath npmAlwaysAuth compressionLevel nmHoistingLimits "
    "nmMode pnpMode pnpFallbackMode defaultSemverRangePrefix enableImmutableInstalls "
    "enableScripts checksumBehavior unsafeHttpWhitelist networkConcurrency httpTimeout "
    "httpRetry npmMinimalAgeGate";
constexpr std::string_view go_keys =
    "GOPROXY GONOPROXY GOPRIVATE GOSUMDB GONOSUMDB GONOSUMCHECK GOINSECURE GOVCS GOFLAGS "
    "GOTOOLCHAIN GOBIN GOPATH GOMODCACHE GOCACHE GOARCH GOOS GOAMD64 GOARM GOARM64 GOEXPERIMENT "
    "GO111MODULE GOTELEMETRY CGO_ENABLED CGO_CFLAGS CGO_CPPFLAGS CGO_CXXFLAGS CGO_LDFLAGS CC "
    "CXX AR PKG_CONFIG GOWORK GODEBUG GOTMPDIR";
constexpr std::string_view maven_elements =
    "settings localRepository interactiveMode offline pluginGroups pluginGroup mirrors mirror "
    "id name url mirrorOf layout mirrorOfLayouts blocked proxies proxy active protocol host "
    "port nonProxyHosts profiles profile activation activeByDefault jdk os family arch version "
    "repositories repository pluginRepositories pluginRepository releases snapshots enabled "
    "updatePolicy checksumPolicy activeProfiles activeProfile";
constexpr std::string_view nuget_elements =
    "configuration packageSources disabledPackageSources activePackageSource "
    "packageSourceMapping packageSource package add clear remove";

std::string_view trimmed(std::string_view text) {
    constexpr std::string_view blanks = " \t\r\n";
    const std::size_t from = text.find_first_not_of(blanks);
    if (from == std::string_view::npos) return {};
    return text.substr(from, text.find_last_not_of(blanks) - from + 1);
}

std::vector<std::string_view> lines_of(std::string_view content) {
    std::vector<std::string_view> lines;
    while (!content.empty()) {
        const std::size_t end = content.find('\n');
        lines.push_back(content.substr(0, end));
        content = end == std::string_view::npos ? std::string_view() : content.substr(end + 1);
    }
    return lines;
}

std::string_view unquoted(std::string_view text) {
    if (text.size() >= 2 && (text.front() == '"' || text.front() == '\'') && text.back() == text.front())
        return text.substr(1, text.size() - 2);
    return text;
}

/// `key = value` lines with `#` and `;` comments and `[sections]`. Comments are left out: a credential that
/// was commented out is one all the same. `continued`: lines that begin with a blank go on with the value.
template <class Allowed>
std::string ini_copy(std::string_view content, bool continued, Allowed allowed) {
    std::string out;
    bool keeps = false;
    for (const std::string_view line : lines_of(content)) {
        const std::string_view text = trimmed(line);
        if (text.empty() || text.front() == '#' || text.front() == ';') continue;
        if (continued && (line.front() == ' ' || line.front() == '\t')) {
            if (keeps) out.append("    ").append(without_credentials(text)) += '\n';
            continue;
        }
        keeps = false;
        if (text.front() == '[') {
            if (text.back() == ']' && without_credentials(text) == text) out.append(text) += '\n';
            continue;
        }
        const std::size_t at = text.find_first_of(continued ? "=:" : "=");
        if (at == std::string_view::npos) continue;
        const std::string_view key = trimmed(text.substr(0, at));
        keeps = allowed(key);
        if (keeps)
            out.append(key).append(" = ").append(without_credentials(trimmed(text.substr(at + 1)))) += '\n';
    }
    return out;
}

bool npm_key(std::string_view key) {
    key = unquoted(key);
    if (key.ends_with("[]")) key.remove_suffix(2);
    if (key.starts_with('@')) return key.ends_with(":registry") && key.find('/') == std::string_view::npos;
    return has_word(npm_keys, key);
}

bool pip_key(std::string_view key) {
    std::string plain(key);
    std::ranges::replace(plain, '_', '-');
    return has_word(pip_keys, std::string_view(plain));
}

/// A value that ends on its line: brackets and quotes are balanced, and it holds no `"""` or `'''`.
bool whole_value(std::string_view value) {
    int depth = 0;
    char quote = 0;
    if (value.find("\"\"\"") != std::string_view::npos || value.find("'''") != std::string_view::npos)
        return false;
    for (std::size_t at = 0; at < value.size(); ++at) {
        const char one = value[at];
        if (quote != 0) {
            if (one == '\\' && quote == '"') ++at;
            if (one == quote) quote = 0;
        } else if (one == '"' || one == '\'') {
            quote = one;
        } else if (one == '[' || one == '{') {
            ++depth;
        } else if (one == ']' || one == '}') {
            --depth;
        } else if (one == '#') {
            break;
        }
    }
    return quote == 0 && depth == 0;
}

/// Strings of a one-line value, each without the user part of its URL; nothing where it is not understood.
std::optional<std::string> toml_value(std::string_view value) {
    if (value.find('{') != std::string_view::npos)
        return std::nullopt;  // an inline table has keys of its own
    std::string out;
    for (std::size_t at = 0; at < value.size(); ++at) {
        const char one = value[at];
        if (one == '#') break;
        if (one != '"' && one != '\'') {
            out += one;
            continue;
        }
        const std::size_t end = value.find(one, at + 1);
        if (end == std::string_view::npos) return std::nullopt;
        const std::string_view text = value.substr(at + 1, end - at - 1);
        // An escape could hide a URL or the end of the text.
        if (one == '"' && text.find('\\') != std::string_view::npos) return std::nullopt;
        (out += one).append(without_credentials(text)) += one;
        at = end;
    }
    return std::string(trimmed(out));
}

/// The subset of TOML that the tools' own pages use: tables, and values on one line or in an array over
/// several lines. Nothing if a line is none of that.
std::optional<std::string> toml_copy(std::string_view content, std::string_view keys) {
    std::string out;
    std::string joined;
    bool keeps_table = true;
    for (const std::string_view line : lines_of(content)) {
        const std::string_view text = trimmed(line);
        if (joined.empty() && (text.empty() || text.front() == '#')) continue;
        if (joined.empty() && text.front() == '[') {
            const std::string_view name = trimmed(text.substr(0, text.find('#')));
            if (name.back() != ']') return std::nullopt;
            // Variables for programs may hold anything.
            keeps_table = !name.starts_with("[env") && without_credentials(name) == name;
            if (keeps_table) out.append(name) += '\n';
            continue;
        }
        std::string_view part = text;
        if (!joined.empty()) part = text.substr(0, text.front() == '#' ? 0 : text.find(" #"));
        joined.append(joined.empty() ? "" : " ").append(trimmed(part));
        const std::size_t at = joined.find('=');
        if (at == std::string::npos) return std::nullopt;
        const std::string_view value = trimmed(std::string_view(joined).substr(at + 1));
        if (!whole_value(value)) {
            // Only an array goes on.
            if (!value.starts_with('[') || joined.size() > max_settings) return std::nullopt;
            continue;
        }
        const std::string_view key = trimmed(std::string_view(joined).substr(0, at));
        const std::size_t dot = key.rfind('.');
        const std::string_view last =
            unquoted(trimmed(dot == std::string_view::npos ? key : key.substr(dot + 1)));
        if (keeps_table && has_word(keys, last) && !key.starts_with("env")) {
            if (const auto kept = toml_value(value)) out.append(key).append(" = ").append(*kept) += '\n';
        }
        joined.clear();
    }
    if (!joined.empty()) return std::nullopt;
    return out;
}

/// Block mappings alone: `key: value`, or `key:` with deeper lines. A line that is neither belongs to the key
/// above it, and is left out.
std::string yaml_copy(std::string_view content) {
    std::string out;
    std::size_t skipped = std::string_view::npos;  // the indentation of a key that was left out
    std::vector<std::pair<std::size_t, std::string>> above;
    for (const std::string_view line : lines_of(content)) {
        const std::string_view text = trimmed(line);
        if (text.empty() || text.front() == '#') continue;
        const std::size_t depth = line.find_first_not_of(" \t");
        if (skipped != std::string_view::npos && depth > skipped) continue;
        skipped = std::string_view::npos;
        while (!above.empty() && above.back().first >= depth) above.pop_back();
        const std::size_t at = text.find(": ");
        const bool opens = text.back() == ':';
        if (!opens && at == std::string_view::npos) continue;
        const std::string_view key =
            unquoted(trimmed(text.substr(0, opens && at == std::string_view::npos ? text.size() - 1 : at)));
        // Names of scopes and registries are the user's own.
        const bool scope = !above.empty() && above.size() == 1 && opens;
        if (!has_word(yarn_keys, key) && !scope) {
            skipped = depth;
            continue;
        }
        const std::string_view value = opens ? std::string_view() : trimmed(text.substr(at + 2));
        // Other forms of values may hold keys, or go on in the next lines.
        if (!value.empty() && std::string_view("{[|>&*!").find(value.front()) != std::string_view::npos) {
            skipped = depth;
            continue;
        }
        std::string name(
            trimmed(text.substr(0, opens && at == std::string_view::npos ? text.size() - 1 : at)));
        name = without_credentials(name);
        out.append(depth, ' ').append(name) += ':';
        if (!value.empty()) {
            const std::string_view bare = unquoted(value);
            out.append(" \"").append(without_credentials(bare)) += '"';
        }
        out += '\n';
        above.emplace_back(depth, name);
    }
    return out;
}

std::string yarn_classic_copy(std::string_view content) {
    std::string out;
    for (const std::string_view line : lines_of(content)) {
        const std::string_view text = trimmed(line);
        const std::size_t at = text.find(' ');
        if (text.empty() || text.front() == '#' || at == std::string_view::npos) continue;
        const std::string_view key = unquoted(text.substr(0, at));
        if (!npm_key(key)) continue;
        out.append(text.substr(0, at))
            .append(" \"")
            .append(without_credentials(unquoted(trimmed(text.substr(at))))) += "\"\n";
    }
    return out;
}

std::string go_copy(std::string_view content) {
    std::string out;
    for (const std::string_view line : lines_of(content)) {
        const std::size_t at = line.find('=');
        if (at == std::string_view::npos || !has_word(go_keys, trimmed(line.substr(0, at)))) continue;
        out.append(trimmed(line.substr(0, at))) += '=';
        // GOPROXY is a list.
        std::string_view rest = trimmed(line.substr(at + 1));
        while (!rest.empty()) {
            const std::size_t end = rest.find_first_of(",|");
            out.append(without_credentials(rest.substr(0, end)));
            if (end == std::string_view::npos) break;
            out += rest[end];
            rest = rest.substr(end + 1);
        }
        out += '\n';
    }
    return out;
}

bool gradle_key(std::string_view key) {
    constexpr std::string_view names =
        "systemProp.http.proxyHost systemProp.http.proxyPort systemProp.http.nonProxyHosts "
        "systemProp.https.proxyHost systemProp.https.proxyPort systemProp.https.nonProxyHosts "
        "org.gradle.daemon org.gradle.parallel org.gradle.caching org.gradle.configureondemand "
        "org.gradle.workers.max org.gradle.vfs.watch org.gradle.console org.gradle.logging.level "
        "org.gradle.warning.mode org.gradle.configuration-cache org.gradle.java.home";
    return key.starts_with("android.use") || has_word(names, key);
}

using Tree = boost::property_tree::ptree;

void copy_elements(const Tree& from, Tree& to, std::string_view elements) {
    for (const auto& [name, child] : from) {
        if (name == "<xmlattr>") {
            to.add_child(Tree::path_type(name, '\0'), child);
            for (auto& [attribute, value] : to.back().second)
                value.data() = without_credentials(value.data());
            continue;
        }
        if (!has_word(elements, std::string_view(name))) continue;
        Tree& copied =
            to.add_child(Tree::path_type(name, '\0'), Tree(without_credentials(trimmed(child.data()))));
        copy_elements(child, copied, elements);
    }
}

std::optional<std::string> xml_copy(std::string_view content, std::string_view elements) {
    // Each level of nesting takes stack, and a user's rule may let the target write such a file.
    constexpr std::ptrdiff_t max_elements = 4000;
    if (std::ranges::count(content, '<') > max_elements) return std::nullopt;
    try {
        std::istringstream in{std::string(content)};
        Tree from, to;
        boost::property_tree::read_xml(in, from, boost::property_tree::xml_parser::no_comments);
        copy_elements(from, to, elements);
        std::ostringstream out;
        boost::property_tree::write_xml(out, to);
        return out.str();
    } catch (const boost::property_tree::ptree_error&) {
        return std::nullopt;
    }
}

}  // namespace

bool settings_known(std::string_view path) { return known_file(path) != nullptr; }

std::string without_credentials(std::string_view text) {
    std::string out;
    for (std::size_t from = 0; from < text.size();) {
        const std::size_t scheme = text.find("//", from);
        if (scheme == std::string_view::npos) {
            // A proxy may be given as user:password@host.
            const std::string_view last = text.substr(from);
            const std::size_t user = last.rfind('@');
            out.append(user == std::string_view::npos ? last : last.substr(user + 1));
            break;
        }
        // The scheme may be missing: "//host/path".
        std::size_t end = text.find_first_of(" \t\"'<>,|", scheme + 2);
        if (end == std::string_view::npos) end = text.size();
        std::string_view rest = text.substr(scheme + 2, end - scheme - 2);
        const std::size_t authority_end = rest.find_first_of("/?#\\");
        const std::string_view authority = rest.substr(0, authority_end);
        const std::string_view path =
            authority_end == std::string_view::npos ? std::string_view() : rest.substr(authority_end);
        out.append(text.substr(from, scheme + 2 - from)).append(authority.substr(authority.rfind('@') + 1));
        // A password with an unescaped slash would move the "@" behind it.
        if (path.find('@') != std::string_view::npos && authority.find('@') == std::string_view::npos &&
            authority.find(':') != std::string_view::npos) {
            out.erase(out.size() - authority.size());
            out.append(path.substr(path.rfind('@') + 1, path.find_first_of("?#") - path.rfind('@') - 1));
        } else {
            out.append(path.substr(0, path.find_first_of("?#")));
        }
        from = end;
    }
    return out;
}

std::string login_file_of(std::span<const std::string> environment) {
    constexpr std::string_view name = "PATH=";
    const auto found =
        std::ranges::find_if(environment, [](const auto& one) { return one.starts_with(name); });
    if (found == environment.end()) return "";
    std::string text = "PATH='";
    for (const char one : found->substr(name.size())) one == '\'' ? text += "'\\''" : text += one;
    return text + "'\nexport PATH\n";
}

std::optional<std::string> settings_copy(std::string_view path, std::string_view content,
                                         std::string_view login_file) {
    const Known* const file = known_file(path);
    if (file == nullptr || content.size() > max_settings || content.find('\0') != std::string_view::npos)
        return std::nullopt;
    switch (file->format) {
        case Format::npmrc:
            return ini_copy(content, false, npm_key);
        case Format::pip:
        case Format::pypirc:
            return ini_copy(content, true, pip_key);
        case Format::cargo:
            return toml_copy(content, cargo_keys);
        case Format::uv:
            return toml_copy(content, uv_keys);
        case Format::maven:
            return xml_copy(content, maven_elements);
        case Format::nuget:
            return xml_copy(content, nuget_elements);
        case Format::yarn:
            return yaml_copy(content);
        case Format::yarn_classic:
            return yarn_classic_copy(content);
        case Format::go:
            return go_copy(content);
        case Format::gradle:
            return ini_copy(content, false, gradle_key);
        case Format::login:
            return std::string(login_file);
        case Format::empty:
            return std::string();
        case Format::empty_json:
            return std::string("{}\n");
    }
    return std::nullopt;
}

}  // namespace callgate::calls
