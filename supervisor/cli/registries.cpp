#include "supervisor/cli/registries.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <span>

#include "base/number.hpp"
#include "base/words.hpp"
#include "rules/model/address.hpp"

namespace callgate::cli {

namespace {

using nlohmann::json;

/// A key or variable, and whether its registry replaces the public one.
struct Key {
    std::string_view name;
    bool replaces;
};

struct Tool {
    std::string_view profile;
    std::span<const Key> variables;
    std::span<const std::string_view> files;  // "~/" is the home; "/" at the end: all files in it
    std::span<const Key> keys;
};

constexpr Key npm_variables[] = {{"npm_config_registry", true},
                                 {"NPM_CONFIG_REGISTRY", true},
                                 {"YARN_NPM_REGISTRY_SERVER", true},
                                 {"COREPACK_NPM_REGISTRY", false}};
constexpr std::string_view npm_files[] = {
    "~/.npmrc",      "/etc/npmrc",        "/usr/etc/npmrc", "/usr/local/etc/npmrc",
    "~/.yarnrc.yml", "~/.config/pnpm/rc", "~/.bunfig.toml", "~/.config/.bunfig.toml"};
constexpr Key npm_keys[] = {
    {"registry", true}, {"npmRegistryServer", true}, {"proxy", false}, {"https-proxy", false}};

constexpr Key pip_variables[] = {{"PIP_INDEX_URL", true}, {"PIP_EXTRA_INDEX_URL", false},
                                 {"UV_INDEX_URL", true},  {"UV_DEFAULT_INDEX", true},
                                 {"UV_INDEX", false},     {"UV_EXTRA_INDEX_URL", false}};
constexpr std::string_view pip_files[] = {
    "/etc/pip.conf",   "/etc/xdg/pip/pip.conf", "~/.pip/pip.conf",          "~/.config/pip/pip.conf",
    "/etc/uv/uv.toml", "~/.config/uv/uv.toml",  "~/.config/pdm/config.toml"};
constexpr Key pip_keys[] = {
    {"index-url", true}, {"extra-index-url", false}, {"find-links", false}, {"url", false}, {"proxy", false}};

constexpr Key cargo_variables[] = {{"CARGO_REGISTRIES_CRATES_IO_INDEX", false}, {"CARGO_HTTP_PROXY", false}};
constexpr std::string_view cargo_files[] = {"~/.cargo/config", "~/.cargo/config.toml"};
constexpr Key cargo_keys[] = {
    {"registry", false}, {"index", false}, {"git", false}, {"proxy", false}, {"replace-with", true}};

constexpr Key go_variables[] = {{"GOPROXY", true}, {"GOSUMDB", false}};
constexpr std::string_view go_files[] = {"~/.config/go/env"};
constexpr Key go_keys[] = {{"GOPROXY", true}, {"GOSUMDB", false}};

constexpr std::string_view maven_files[] = {"/etc/maven/settings.xml", "~/.m2/settings.xml"};

constexpr std::string_view ruby_files[] = {"/etc/gemrc", "~/.gemrc", "~/.config/gem/gemrc",
                                           "~/.bundle/config"};

constexpr std::string_view php_files[] = {"~/.composer/config.json", "~/.config/composer/config.json"};

constexpr std::string_view git_files[] = {"/etc/gitconfig", "~/.gitconfig", "~/.config/git/config"};

constexpr std::string_view apt_files[] = {"/etc/apt/sources.list", "/etc/apt/sources.list.d/"};

constexpr Tool tools[] = {
    {"node", npm_variables, npm_files, npm_keys},
    {"python", pip_variables, pip_files, pip_keys},
    {"rust", cargo_variables, cargo_files, cargo_keys},
    {"go", go_variables, go_files, go_keys},
    {"java", {}, maven_files, {}},
    {"ruby", {}, ruby_files, {}},
    {"php", {}, php_files, {}},
    {"git", {}, git_files, {}},
    {"apt", {}, apt_files, {}},
};

std::string_view trim(std::string_view text) {
    constexpr std::string_view around = " \t\r\n\"'[],";
    const std::size_t from = text.find_first_not_of(around);
    if (from == std::string_view::npos) return {};
    return text.substr(from, text.find_last_not_of(around) - from + 1);
}

/// Calls `visit` for each URL in a text.
template <class Visit>
void each_url(std::string_view text, Visit visit) {
    constexpr std::string_view ends = " \t\r\n\"'<>,|[]{}";
    for (std::size_t at = text.find("://"); at != std::string_view::npos; at = text.find("://", at + 3)) {
        const std::size_t before = text.find_last_of(ends, at);
        const std::size_t from = before == std::string_view::npos ? 0 : before + 1;
        visit(text.substr(from, text.find_first_of(ends, at) - from));
    }
}

template <class Visit>
void each_line(std::string_view text, Visit visit) {
    for (std::size_t at = 0; at < text.size();) {
        const std::size_t end = std::min(text.find('\n', at), text.size());
        visit(text.substr(at, end - at));
        at = end + 1;
    }
}

std::string without_user(std::string_view text) {
    std::string out;
    while (true) {
        const std::size_t scheme = text.find("://");
        if (scheme == std::string_view::npos) return out.append(text);
        out.append(text.substr(0, scheme + 3));
        text.remove_prefix(scheme + 3);
        const std::size_t end = text.find_first_of("/?# ,|");
        const std::string_view authority = text.substr(0, end);
        out.append(authority.substr(authority.rfind('@') + 1));
        text.remove_prefix(authority.size());
    }
}

class Reader {
public:
    Reader(const Tool& tool, const RegistrySources& sources) : tool_(tool), sources_(sources) {}

    Registries read() {
        for (const Key& one : tool_.variables) {
            const auto value = sources_.variable(std::string(one.name));
            if (!value || value->empty()) continue;
            add_value(one, *value);
            found_.variables.emplace_back(one.name, without_user(*value));
        }
        for (const std::string_view path : tool_.files) {
            const std::string full =
                path.starts_with("~/") ? sources_.home + std::string(path.substr(1)) : std::string(path);
            if (!full.ends_with('/')) {
                add_file(full);
                continue;
            }
            std::vector<std::string> names = sources_.names(full);
            std::ranges::sort(names);
            for (const std::string& name : names) add_file(full + name);
        }
        return std::move(found_);
    }

private:
    void add_file(const std::string& path) {
        if (const auto content = sources_.file(path)) add_content(path, *content);
    }

    void add_value(const Key& key, std::string_view value) {
        const std::size_t before = found_.hosts.size();
        each_url(value, [this](std::string_view url) { add_url(url); });
        // GOSUMDB may be a bare host; a word such as "direct" or "off" is none.
        if (key.name == "GOSUMDB" && value.find("://") == std::string_view::npos) {
            const std::string_view host = trim(value.substr(0, value.find_first_of(" +")));
            if (host.find('.') != std::string_view::npos) add_url("https://" + std::string(host));
        }
        const bool named =
            found_.hosts.size() > before || key.name == "replace-with" || key.name == "GOPROXY";
        found_.replace = found_.replace || (key.replaces && named);
    }

    void add_url(std::string_view url) {
        const auto host = host_of_url(url);
        if (host && std::ranges::find(found_.hosts, *host) == found_.hosts.end())
            found_.hosts.push_back(*host);
    }

    void add_content(const std::string& path, std::string_view content) {
        if (path.ends_with(".xml")) return add_maven(content);
        if (path.ends_with(".json")) return add_composer(content);
        if (path.ends_with("gemrc")) return add_gemrc(content);
        if (path.ends_with(".bundle/config")) return add_bundle(content);
        if (path.ends_with(".bunfig.toml")) return add_bun(content);
        if (path.ends_with(".sources")) return add_apt_stanzas(content);
        if (path.ends_with(".list")) return add_apt_lines(content);
        if (tool_.profile == "apt") return;  // apt reads no file of another name
        if (tool_.profile == "git") return add_git(content);
        add_lines(content);
    }

    /// `key = value`, `key: value`, and lines that go on with the value above.
    void add_lines(std::string_view content) {
        const Key* current = nullptr;
        each_line(content, [&](std::string_view line) {
            const std::string_view text = trim(line);
            if (text.empty() || line.find_first_not_of(" \t") == line.find_first_of("#;")) return;
            const std::size_t equals = text.find('=');
            const std::size_t colon = text.find(": ");
            const std::size_t split = equals != std::string_view::npos ? equals : colon;
            const bool goes_on = split == std::string_view::npos || text.find("://") < split;
            if (goes_on) {
                if (current != nullptr) add_value(*current, text);
                return;
            }
            current = key_of(trim(text.substr(0, split)));
            if (current != nullptr) add_value(*current, text.substr(split + 1));
        });
    }

    const Key* key_of(std::string_view name) {
        static constexpr Key scoped{"@scope:registry", false};
        if (tool_.profile == "node" && name.ends_with(":registry")) return &scoped;
        std::string plain(name);
        if (tool_.profile == "python") std::ranges::replace(plain, '_', '-');
        const auto found = std::ranges::find(tool_.keys, std::string_view(plain), &Key::name);
        return found == tool_.keys.end() ? nullptr : &*found;
    }

    /// Elements `url` and `mirrorOf`, outside of comments.
    void add_maven(std::string_view content) {
        std::string plain;
        while (!content.empty()) {
            const std::size_t comment = content.find("<!--");
            plain.append(content.substr(0, comment));
            if (comment == std::string_view::npos) break;
            const std::size_t end = content.find("-->", comment);
            content = end == std::string_view::npos ? std::string_view() : content.substr(end + 3);
        }
        const auto each = [&plain](std::string_view name, auto visit) {
            const std::string open = "<" + std::string(name) + ">";
            for (std::size_t at = plain.find(open); at != std::string::npos; at = plain.find(open, at + 1)) {
                const std::size_t from = at + open.size();
                visit(trim(std::string_view(plain).substr(from, plain.find('<', from) - from)));
            }
        };
        each("url", [this](std::string_view url) { add_url(url); });
        each("mirrorOf", [this](std::string_view of) {
            // "central,!x", "*", "external:*"; Maven's own "external:http:*" blocks and replaces nothing.
            found_.replace = found_.replace || of.starts_with("*") || of.starts_with("central") ||
                             of.starts_with("external:*");
        });
    }

    /// `:sources:` with lines "- URL" below, or a list on the line. They stand for RubyGems' own if it is
    /// none.
    void add_gemrc(std::string_view content) {
        bool of_sources = false;
        each_line(content, [&](std::string_view line) {
            const std::string_view text = trim(line.substr(0, line.find('#')));
            const bool key = line.starts_with(":sources:") || line.starts_with("sources:");
            if (!key && !text.empty() && !text.starts_with('-')) of_sources = false;
            of_sources = of_sources || key;
            if (!of_sources) return;
            each_url(text, [&](std::string_view url) {
                add_url(url);
                const auto host = host_of_url(url);
                found_.replace = found_.replace || (host && host->host != "rubygems.org");
            });
        });
    }

    /// BUNDLE_MIRROR__SOURCE: "URL"; the source has "__" for each dot, or is ALL.
    void add_bundle(std::string_view content) {
        constexpr std::string_view start = "BUNDLE_MIRROR__";
        each_line(content, [&](std::string_view line) {
            const std::size_t split = line.find(": ");
            if (!line.starts_with(start) || split == std::string_view::npos) return;
            const std::size_t before = found_.hosts.size();
            each_url(line.substr(split), [this](std::string_view url) { add_url(url); });
            const std::string_view source = line.substr(start.size(), split - start.size());
            const bool all =
                source == "ALL" || lower_case(source).find("//rubygems__org") != std::string::npos;
            found_.replace = found_.replace || (all && found_.hosts.size() > before);
        });
    }

    /// `registry`, a URL or a table with one, and those of scopes in a table of their own.
    void add_bun(std::string_view content) {
        bool of_scopes = false;
        each_line(content, [&](std::string_view line) {
            const std::string_view text = trim(line.substr(0, line.find('#')));
            const std::string_view key = trim(text.substr(0, text.find('=')));
            if (line.starts_with('[')) of_scopes = text == "install.scopes";
            if (of_scopes)
                each_url(text, [this](std::string_view url) { add_url(url); });
            else if (key == "registry" || key == "install.registry" || key == "url")
                add_value({"registry", true}, text);
        });
    }

    /// "repositories", a list or an object, with "packagist.org": false where the public one is not wanted.
    void add_composer(std::string_view content) {
        const json settings = json::parse(content, nullptr, false);
        if (!settings.is_object() || !settings.contains("repositories")) return;
        const auto off = [](const json& one) {
            return one.is_object() &&
                   (one.value("packagist.org", json()) == false || one.value("packagist", json()) == false);
        };
        const json& all = settings["repositories"];
        found_.replace = found_.replace || off(all);
        for (const json& one : all) {
            found_.replace = found_.replace || off(one);
            if (one.is_object() && one.contains("url") && one["url"].is_string())
                add_url(one["url"].get_ref<const std::string&>());
        }
    }

    /// Sections [url "BASE"] are bases that stand for others (insteadOf).
    void add_git(std::string_view content) {
        constexpr std::string_view section = "[url \"";
        for (std::size_t at = content.find(section); at != std::string_view::npos;
             at = content.find(section, at + 1)) {
            const std::size_t from = at + section.size();
            add_url(content.substr(from, content.find('"', from) - from));
        }
    }

    /// apt first asks which server has the service of a host.
    void add_apt(std::string_view urls) {
        each_url(urls, [this](std::string_view url) {
            add_url(url);
            const auto host = host_of_url(url);
            if (!host || !rules::parse_host(host->host) || rules::parse_cidr(host->host)) return;
            const bool tls = url.substr(0, url.find("://")).ends_with("https");
            const RegistryHost service{(tls ? "_https._tcp." : "_http._tcp.") + host->host, host->port};
            if (std::ranges::find(found_.hosts, service) == found_.hosts.end())
                found_.hosts.push_back(service);
        });
    }

    /// "deb [OPTIONS] URL SUITE...", one a line.
    void add_apt_lines(std::string_view content) {
        each_line(content, [this](std::string_view line) {
            const std::string_view text = trim(line.substr(0, line.find('#')));
            if (text.starts_with("deb ") || text.starts_with("deb-src ")) add_apt(text);
        });
    }

    /// Fields "URIs: URL..." and "Enabled: no" of stanzas, which an empty line ends (deb822).
    void add_apt_stanzas(std::string_view content) {
        std::string urls;
        bool enabled = true, of_urls = false;
        const auto end_stanza = [&] {
            if (enabled) add_apt(urls);
            urls.clear();
            enabled = true;
            of_urls = false;
        };
        each_line(content, [&](std::string_view line) {
            if (line.starts_with('#')) return;
            if (trim(line).empty()) return end_stanza();
            const bool goes_on = line.starts_with(' ') || line.starts_with('\t');
            const std::size_t colon = goes_on ? 0 : std::min(line.find(':'), line.size());
            const std::string_view value = line.substr(std::min(colon + 1, line.size()));
            if (!goes_on) of_urls = lower_case(line.substr(0, colon)) == "uris";
            if (of_urls) (urls += ' ') += value;
            if (!goes_on && lower_case(line.substr(0, colon)) == "enabled")
                enabled = !has_word("no false", lower_case(trim(value)));
        });
        end_stanza();
    }

    const Tool& tool_;
    const RegistrySources& sources_;
    Registries found_;
};

}  // namespace

std::optional<RegistryHost> host_of_url(std::string_view url) {
    const std::size_t scheme = url.find("://");
    if (scheme == std::string_view::npos) return std::nullopt;
    std::string_view kind = url.substr(0, scheme);
    if (const std::size_t plus = kind.rfind('+'); plus != std::string_view::npos)
        kind = kind.substr(plus + 1);
    RegistryHost found;
    if (kind == "http") {
        found.port = 80;
    } else if (kind == "ssh") {
        found.port = 22;
    } else if (kind == "git") {
        found.port = 9418;
    } else if (kind != "https") {
        return std::nullopt;
    }
    std::string_view authority = url.substr(scheme + 3);
    authority = authority.substr(0, authority.find_first_of("/?#"));
    authority = authority.substr(authority.rfind('@') + 1);
    std::string_view port;
    if (authority.starts_with('[')) {
        const std::size_t end = authority.find(']');
        if (end == std::string_view::npos) return std::nullopt;
        if (authority.substr(end + 1).starts_with(':')) port = authority.substr(end + 2);
        authority = authority.substr(1, end - 1);
    } else if (const std::size_t colon = authority.find(':'); colon != std::string_view::npos) {
        port = authority.substr(colon + 1);
        authority = authority.substr(0, colon);
    }
    if (!port.empty()) {
        const auto number = parse_number<std::uint16_t>(port);
        if (!number || *number == 0) return std::nullopt;
        found.port = *number;
    }
    found.host = authority;
    if (!rules::parse_host(found.host).has_value() && !rules::parse_cidr(found.host).has_value())
        return std::nullopt;
    return found;
}

Registries configured_registries(std::string_view profile, const RegistrySources& sources) {
    const auto* const tool = std::ranges::find(tools, profile, &Tool::profile);
    return tool == std::end(tools) ? Registries{} : Reader(*tool, sources).read();
}

}  // namespace callgate::cli
