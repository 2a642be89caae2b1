#include "supervisor/calls/files/settings_copy.hpp"

#include <algorithm>
#include <cstdint>

#include "base/words.hpp"
#include "supervisor/calls/files/settings_formats.hpp"

namespace callgate::calls {

namespace {

enum class Format : std::uint8_t {
    npmrc,
    pip,
    pypirc,
    cargo,
    uv,
    bun,
    pdm,
    hatch,
    poetry,
    streamlit,
    subversion,
    mercurial,
    ansible,
    maven,
    nuget,
    yarn,
    yarn_classic,
    go,
    gradle,
    gemrc,
    bundle,
    composer,
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
    {"/pnpm/rc", Format::npmrc},
    {"/pip.conf", Format::pip},
    {"/.pypirc", Format::pypirc},
    {"/.cargo/config", Format::cargo},
    {"/.cargo/config.toml", Format::cargo},
    {"/uv/uv.toml", Format::uv},
    {"/.bunfig.toml", Format::bun},
    {"/pdm/config.toml", Format::pdm},
    {"/hatch/config.toml", Format::hatch},
    {"/pypoetry/config.toml", Format::poetry},
    {"/.streamlit/config.toml", Format::streamlit},
    {"/.subversion/servers", Format::subversion},
    {"/.hgrc", Format::mercurial},
    {"/hg/hgrc", Format::mercurial},
    {"/.ansible.cfg", Format::ansible},
    {"/.m2/settings.xml", Format::maven},
    {"/NuGet/NuGet.Config", Format::nuget},
    {"/.yarnrc.yml", Format::yarn},
    {"/.yarnrc", Format::yarn_classic},
    {"/go/env", Format::go},
    {"/.gradle/gradle.properties", Format::gradle},
    {"/.gemrc", Format::gemrc},
    {"/gem/gemrc", Format::gemrc},
    {"/.bundle/config", Format::bundle},
    {"/.composer/config.json", Format::composer},
    {"/composer/config.json", Format::composer},
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

/// pnpm's store is left out: no run writes the user's.
constexpr std::string_view npm_keys =
    "registry proxy https-proxy noproxy strict-ssl cafile cache prefix save save-exact save-"
    "prefix engine-strict fund audit loglevel progress legacy-peer-deps package-lock fetch-"
    "retries fetch-timeout fetch-retry-mintimeout fetch-retry-maxtimeout maxsockets prefer-"
    "offline offline omit include optional ignore-scripts script-shell node-linker shamefully-"
    "hoist hoist hoist-pattern public-hoist-pattern strict-peer-dependencies auto-install-peers "
    "update-notifier color workspaces install-links install-strategy before min-"
    "release-age tag access always-auth nodedir python yes audit-level "
    "lockfile-version strict-peer-deps prefer-dedupe prefer-online foreground-scripts bin-links "
    "omit-lockfile-registry-resolved replace-registry-host strict-allow-scripts allow-git "
    "allow-remote allow-file allow-directory";
constexpr std::string_view pip_keys =
    "index-url extra-index-url find-links no-index trusted-host timeout retries cert proxy "
    "require-virtualenv disable-pip-version-check no-cache-dir only-binary no-binary prefer-"
    "binary pre format use-pep517 break-system-packages progress-bar quiet verbose user cache-"
    "dir no-build-isolation constraint upgrade-strategy require-hashes no-color no-input no-"
    "warn-script-location no-compile index-servers repository";
/// These count for all servers. Groups of servers have names of their own as keys, and are left out.
constexpr std::string_view subversion_keys =
    "http-proxy-host http-proxy-port http-proxy-exceptions http-timeout http-compression "
    "http-max-connections http-bulk-updates http-auth-types http-chunked-requests http-library "
    "ssl-authority-files ssl-trust-default-ca store-passwords store-plaintext-passwords "
    "store-ssl-client-cert-pp store-ssl-client-cert-pp-plaintext store-auth-creds";
/// Passwords stand under names of one's own, and so do paths of repositories and aliases: all these are left
/// out.
constexpr std::string_view mercurial_keys =
    "verbose quiet interactive interface tweakdefaults style merge editor color mode pager "
    "paginate debug traceback timeout slash git showfunc nodates noprefix ignorews ignorewsamount "
    "ignoreblanklines unified new-commit publish encoding absorb amend blackbox children churn closehead "
    "convert eol "
    "extdiff fetch fix graphlog histedit journal keyword largefiles lfs mq narrow patchbomb purge rebase "
    "record relink remotenames share show sparse split strip transplant uncommit evolve topic";
constexpr std::string_view ansible_keys =
    "inventory roles_path collections_path collections_paths library module_utils host_key_checking forks "
    "timeout gathering gather_subset gather_timeout remote_user remote_port private_key_file "
    "retry_files_enabled stdout_callback callback_whitelist callbacks_enabled callback_result_format "
    "result_format nocows nocolor force_color deprecation_warnings system_warnings command_warnings "
    "devel_warnings localhost_warning interpreter_python display_skipped_hosts display_ok_hosts "
    "display_args_to_stdout show_task_path_on_failure become become_method become_user become_ask_pass "
    "pipelining transport ssh_args control_path strategy hash_behaviour jinja2_native "
    "jinja2_extensions any_errors_fatal error_on_undefined_vars max_fail_percentage ask_pass "
    "ask_vault_pass vault_password_file enable_plugins unparsed_is_failed server_list url context always";
constexpr std::string_view uv_keys =
    "index-url extra-index-url find-links no-index index name url default explicit format "
    "index-strategy keyring-provider native-tls offline no-cache cache-dir python-preference "
    "python-downloads resolution prerelease link-mode compile-bytecode exclude-newer no-binary "
    "no-build no-build-isolation allow-insecure-host concurrent-downloads required-version "
    "preview";
constexpr std::string_view bun_keys =
    "registry url optional dev peer production exact saveTextLockfile auto frozenLockfile dryRun "
    "globalDir globalBinDir ca cafile dir disable disableManifest save print linker "
    "linkWorkspacePackages minimumReleaseAge minimumReleaseAgeExcludes concurrentScripts "
    "ignoreScripts hoistPattern publicHoistPattern shell bun silent smol logLevel telemetry jsx "
    "jsxFactory jsxFragment jsxImportSource preload root coverage coverageThreshold";
constexpr std::string_view pdm_keys =
    "url verify_ssl json_api ca_certs type name find_links include_packages exclude_packages "
    "ignore_stored_index auto_global cache cache_dir cache_method check_update fallback "
    "global_project_path in_project use_venv location prompt with_pip backend parallel "
    "requires_python use_uv use_last resolve_update_strategy strategy save_strategy "
    "inherit_metadata exclude_newer request_timeout theme";
constexpr std::string_view hatch_keys =
    "mode project shell path python data cache virtual env repo url name email headers default tests ci "
    "src-layout info success error warning waiting debug spinner location";
constexpr std::string_view poetry_keys =
    "url cert client-cert cache-dir data-dir create in-project path prompt always-copy system-site-packages "
    "no-pip no-setuptools use-poetry-python prefer-active-python parallel max-workers max-retries "
    "modern-installation no-binary only-binary build-config-settings lazy-wheel enabled re-resolve "
    "system-git-client python installation-dir priority";
constexpr std::string_view streamlit_keys =
    "base primaryColor backgroundColor secondaryBackgroundColor textColor font linkColor borderColor "
    "baseRadius headless port address runOnSave fileWatcherType enableCORS enableXsrfProtection baseUrlPath "
    "maxUploadSize maxMessageSize gatherUsageStats serverAddress serverPort showErrorDetails toolbarMode "
    "showSidebarNavigation magicEnabled fastReruns level messageFormat enableStaticServing";
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

constexpr std::string_view gem_keys =
    "backtrace bulk_threshold verbose update_sources sources ssl_verify_mode ssl_ca_cert "
    "concurrent_downloads disable_default_gem_server ipv4_fallback_enabled gemhome gempath gem install "
    "update benchmark";
constexpr std::string_view bundle_keys =
    "ALLOW_OFFLINE_INSTALL AUTO_INSTALL BIN CACHE_ALL CACHE_ALL_PLATFORMS CACHE_PATH CLEAN CONSOLE DEFAULT "
    "DEPLOYMENT DISABLE_CHECKSUM_VALIDATION DISABLE_LOCAL_BRANCH_CHECK DISABLE_SHARED_GEMS "
    "DISABLE_VERSION_CHECK FORCE_RUBY_PLATFORM FROZEN GEM__CI GEM__COC GEM__LINTER GEM__MIT GEM__TEST "
    "GEMFILE GLOBAL_GEM_CACHE IGNORE_MESSAGES INIT_GEMS_RB JOBS LOCKFILE_CHECKSUMS NO_INSTALL NO_PRUNE ONLY "
    "PATH PATH__SYSTEM PREFER_PATCH REDIRECT RETRY SILENCE_DEPRECATIONS SILENCE_ROOT_WARNING SSL_CA_CERT "
    "SSL_VERIFY_MODE SYSTEM_BINDIR TIMEOUT VERSION WITH WITHOUT";
constexpr std::string_view composer_keys =
    "preferred-install process-timeout use-include-path use-parent-dir store-auths secure-http "
    "disable-tls cafile capath github-protocols github-domains gitlab-domains gitlab-protocol "
    "bitbucket-domains vendor-dir bin-dir data-dir cache-dir cache-files-dir cache-repo-dir cache-vcs-dir "
    "cache-files-ttl cache-files-maxsize cache-read-only bin-compat prepend-autoloader autoloader-suffix "
    "optimize-autoloader sort-packages classmap-authoritative apcu-autoloader platform platform-check "
    "allow-plugins discard-changes archive-format notify-on-install lock audit bump-after-update";

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

bool subversion_key(std::string_view key) { return has_word(subversion_keys, key); }
bool mercurial_key(std::string_view key) { return has_word(mercurial_keys, key); }
bool ansible_key(std::string_view key) { return has_word(ansible_keys, key); }

/// Hosts are keys of Bundler too, with user and password as the value; those of mirrors have a word before.
bool bundle_key(std::string_view key) {
    constexpr std::string_view start = "BUNDLE_";
    if (!key.starts_with(start)) return false;
    key.remove_prefix(start.size());
    return key.starts_with("MIRROR__") || key.starts_with("LOCAL__") || key.starts_with("BUILD__") ||
           has_word(bundle_keys, key);
}

/// `NAME <MAIL>` looks as if it held credentials, so the user's name is copied apart from the other values.
std::string mercurial_copy(std::string_view content) {
    std::string out = ini_copy(content, true, mercurial_key);
    bool user_interface = false;
    for (const std::string_view line : lines_of(content)) {
        const std::string_view text = trimmed(line);
        if (text.starts_with('[')) user_interface = text == "[ui]";
        const std::size_t at = text.find('=');
        if (!user_interface || at == std::string_view::npos || trimmed(text.substr(0, at)) != "username")
            continue;
        const std::string_view name = trimmed(text.substr(at + 1));
        if (line.front() != ' ' && line.front() != '\t' && name.find("://") == std::string_view::npos)
            out.append("[ui]\nusername = ").append(name) += '\n';
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
        const auto value = npm_key(key) ? without_comment(trimmed(text.substr(at)), "#") : std::nullopt;
        if (!value) continue;
        out.append(text.substr(0, at)).append(" \"").append(without_credentials(unquoted(*value))) += "\"\n";
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

}  // namespace

bool settings_known(std::string_view path) { return known_file(path) != nullptr; }

std::string login_file_of(std::span<const std::string> environment) {
    constexpr std::string_view name = "PATH=";
    const auto found =
        std::ranges::find_if(environment, [name](const auto& one) { return one.starts_with(name); });
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
        case Format::subversion:
            return ini_copy(content, true, subversion_key);
        case Format::mercurial:
            return mercurial_copy(content);
        case Format::ansible:
            return ini_copy(content, true, ansible_key);
        case Format::cargo:
            return toml_copy(content, cargo_keys);
        case Format::uv:
            return toml_copy(content, uv_keys);
        case Format::bun:
            return toml_copy(content, bun_keys, "[install.scopes]");
        case Format::pdm:
            return toml_copy(content, pdm_keys);
        case Format::streamlit:
            return toml_copy(content, streamlit_keys);
        case Format::poetry:
            return toml_copy(content, poetry_keys);
        case Format::hatch:
            return toml_copy(content, hatch_keys);
        case Format::maven:
            return xml_copy(content, maven_elements);
        case Format::nuget:
            return xml_copy(content, nuget_elements);
        case Format::yarn:
            return yaml_copy(content, yarn_keys);
        case Format::yarn_classic:
            return yarn_classic_copy(content);
        case Format::go:
            return go_copy(content);
        case Format::gradle:
            return ini_copy(content, false, gradle_key);
        case Format::gemrc:
            return gemrc_copy(content, gem_keys);
        case Format::bundle:
            return bundle_copy(content, bundle_key);
        case Format::composer:
            return composer_copy(content, composer_keys);
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
