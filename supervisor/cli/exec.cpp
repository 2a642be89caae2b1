// `callgate exec`: jobs as JSON for programs, each run by a `callgate run` of its own.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "base/number.hpp"
#include "base/read_whole.hpp"
#include "base/test_switch.hpp"
#include "base/unique_fd.hpp"
#include "rules/model/limits.hpp"
#include "supervisor/cli/failure.hpp"
#include "supervisor/cli/platform.hpp"
#include "supervisor/cli/rule_options.hpp"
#include "supervisor/cli/run_options.hpp"
#include "supervisor/cli/run_setup.hpp"
#include "supervisor/cli/verbs.hpp"
#include "supervisor/jobs/http/service.hpp"
#include "supervisor/jobs/request_reader.hpp"
#include "supervisor/jobs/server.hpp"
#include "supervisor/nested/outer_run.hpp"

namespace callgate::cli {

namespace {

constexpr std::size_t default_jobs = 64, max_jobs = 1000;

/// Options that are not handed on as they are: exec's own, and those that a job may have too.
constexpr std::string_view kept[] = {"serve",        "http",      "http-token", "tls-cert",   "tls-key",
                                     "drain",        "compat",    "jobs",       "max-output", "timeout",
                                     "idle-timeout", "cpu",       "grace",      "memory",     "open-files",
                                     "processes",    "file-size", "disk",       "help"};

/// Options that allow something.
constexpr std::string_view policies[] = {"profile", "rules",   "rules-json", "read",   "write",
                                         "execute", "connect", "bind",       "except", "default"};

bool is_one_of(std::string_view word, std::span<const std::string_view> words) {
    return std::find(words.begin(), words.end(), word) != words.end();
}

std::vector<std::string> handed_on(const Arguments& arguments) {
    std::vector<std::string> words;
    for (const OptionSpec* option : options(*find_verb("exec"))) {
        if (!arguments.has(option->name) || is_one_of(option->name, kept)) continue;
        const std::string word = "--" + std::string(option->name);
        if (option->arity == Arity::flag) words.push_back(word);
        for (const std::string& value : arguments.values(option->name)) words.push_back(word + "=" + value);
    }
    return words;
}

std::uint64_t read_max_output(const Arguments& arguments) {
    const std::optional<std::string> value = arguments.value("max-output");
    if (!value) return jobs::default_output;
    const std::optional<std::uint64_t> size = rules::parse_size(*value);
    if (!size || *size == 0 || *size > jobs::max_output)
        throw Failure(arguments.origin("max-output") + " " + *value +
                      ": expected a size up to 256M, such as 10M");
    return *size;
}

std::size_t read_jobs(const Arguments& arguments) {
    const std::optional<std::string> value = arguments.value("jobs");
    if (!value) return default_jobs;
    const auto count = parse_number<std::size_t>(*value);
    if (!count || *count == 0 || *count > max_jobs)
        throw Failure(arguments.origin("jobs") + " " + *value + ": expected a whole number from 1 to 1000");
    return *count;
}

/// Descriptors and terminals belong to one run, so they cannot be handed on.
void refuse_what_one_run_needs(const Arguments& arguments) {
    const std::string ask = arguments.value("ask").value_or("");
    if (ask == "tty" || ask.starts_with("fd:"))
        throw Failure(arguments.origin("ask") + " " + ask +
                      " is for callgate run; here: auto, socket (and callgate approve) or never");
    const std::string audit = arguments.value("audit").value_or("");
    if (audit.starts_with("fd:"))
        throw Failure(arguments.origin("audit") + " " + audit +
                      " is for callgate run; here: a file, or --no-audit");
    if (!audit.empty() && (arguments.has("serve") || arguments.has("http")))
        throw Failure(arguments.origin("audit") + " " + audit +
                      ": several runs cannot share a log; leave it out (each has its own in the state "
                      "directory), or give --no-audit");
}

/// Parses every value once here, so that a wrong one fails at once and not in every job.
jobs::Settings read_settings(const Arguments& arguments) {
    refuse_what_one_run_needs(arguments);
    const Places places = find_places();
    (void)read_mode(arguments);
    Request checked;
    LinkedPaths ignored;  // each run looks at them
    read_run_options(arguments, places, checked, ignored);
    (void)read_record_mode(arguments);
    if (arguments.has("workdir")) (void)choose_workdir(arguments, places, true);
    jobs::Settings settings;
    settings.options = handed_on(arguments);
    settings.limits = checked.limits;
    if (arguments.has("grace")) settings.grace = checked.grace;
    settings.max_output = read_max_output(arguments);
    for (const std::string_view option : policies)
        if (settings.policy.empty() && arguments.has(option)) settings.policy = arguments.origin(option);
    settings.workdir = arguments.has("workdir");
    settings.cwd = arguments.has("cwd");
    settings.compat = arguments.has("compat");
    return settings;
}

/// Keeps the runs from a file that was opened. Its own path is denied, since a rule leads through no link.
void close_to_runs(jobs::Settings& settings, const UniqueFd& file) {
    const std::string shown = "/proc/self/fd/" + std::to_string(file.get());
    settings.options.push_back("--deny=" + std::filesystem::read_symlink(shown).string());
}

/// The token of --http-token; "" where there is none. The runs may not read its file.
std::string read_token(const Arguments& arguments, jobs::Settings& settings) {
    const std::optional<std::string> path = arguments.value("http-token");
    if (!path) return {};
    const std::string what = arguments.origin("http-token") + " " + *path;
    const UniqueFd file(::open(path->c_str(), O_RDONLY | O_CLOEXEC));
    constexpr std::size_t max_size = 4096;
    auto text = file ? read_whole(file.get(), max_size) : Result<std::string>(errno_code());
    if (!text) throw Failure(what + ": " + text.error().message());
    auto token = jobs::http::read_token(std::move(*text));
    if (!token) throw Failure(what + ": " + token.error().text);
    if (check_enabled("token-file-closed")) close_to_runs(settings, file);
    return std::move(*token);
}

/// A file of an option, opened and not read.
jobs::http::NamedFile open_named(const Arguments& arguments, std::string_view option, struct stat& status) {
    const std::string path = arguments.value(option).value_or("");
    jobs::http::NamedFile named{UniqueFd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY)),
                                arguments.origin(option) + " " + path};
    if (!named.file || ::fstat(named.file.get(), &status) != 0)
        throw Failure(named.name + ": " + errno_code().message());
    constexpr off_t max_size = 1 << 20;
    if (!S_ISREG(status.st_mode) || status.st_size > max_size)
        throw Failure(named.name + ": this is no regular file of at most 1 MiB; name one in PEM form");
    return named;
}

/// A key of root's may be readable by a group that the service is in, as Debian's group ssl-cert is. The runs
/// may not read it.
jobs::http::NamedFile open_key(const Arguments& arguments, jobs::Settings& settings) {
    struct stat status {};
    jobs::http::NamedFile key = open_named(arguments, "tls-key", status);
    const mode_t closed = status.st_uid == 0 ? S_IWGRP | S_IXGRP | S_IRWXO : S_IRWXG | S_IRWXO;
    if ((status.st_mode & closed) != 0 && check_enabled("tls-key-mode"))
        throw Failure(key.name + ": others may read it; take their permission away by chmod 600");
    if (check_enabled("tls-key-closed")) close_to_runs(settings, key.file);
    return key;
}

/// Starts callgate-tls where the service is to speak TLS.
std::optional<jobs::http::Tls> read_tls(const Arguments& arguments, jobs::Settings& settings) {
    if (!arguments.has("tls-cert") && !arguments.has("tls-key")) return std::nullopt;
    if (!arguments.has("tls-cert") || !arguments.has("tls-key"))
        throw Failure("TLS needs a certificate and its key; give --tls-cert FILE and --tls-key FILE");
    if (arguments.value("http")->starts_with("unix:"))
        throw Failure(arguments.origin("tls-cert") +
                      " is not for unix:PATH, which this user alone reaches; leave it out");
    struct stat status {};
    const auto certificate = open_named(arguments, "tls-cert", status);
    auto tls = jobs::http::start_tls(certificate, open_key(arguments, settings));
    if (!tls) throw Failure(tls.error().text);
    return std::move(*tls);
}

std::chrono::milliseconds read_drain(const Arguments& arguments) {
    constexpr std::chrono::seconds usual{25};  // Kubernetes kills after 30
    const std::optional<std::string> value = arguments.value("drain");
    if (!value) return usual;
    const auto time = rules::parse_duration(*value);
    if (!time) throw Failure(arguments.origin("drain") + " " + *value + ": expected a duration such as 25s");
    return *time;
}

int serve_http(const Arguments& arguments, jobs::Settings settings, std::size_t max_jobs) {
    if (arguments.has("serve"))
        throw Failure(arguments.origin("http") + " and " + arguments.origin("serve") +
                      " are two ways to send jobs; leave out one of them");
    if (settings.compat)
        throw Failure(arguments.origin("compat") + " is not for " + arguments.origin("http") +
                      "; leave it out");
    const auto drain = read_drain(arguments);
    if (!settings.policy.empty()) {
        const std::string here = std::filesystem::current_path().string();
        settings.beneath = is_wide(here, find_places()) ? "" : here;
    }
    const std::string token = read_token(arguments, settings);
    auto tls = read_tls(arguments, settings);
    auto listener = jobs::http::listen(*arguments.value("http"), tls ? "https" : "http");
    if (!listener) throw Failure(listener.error().text);
    if (token.empty() && listener->path.empty() && !listener->loopback)
        throw Failure(arguments.origin("http") + " " + *arguments.value("http") +
                      ": others can reach this address, so a token is needed; give --http-token FILE, or "
                      "serve on 127.0.0.1 or unix:PATH");
    // A sender of jobs chooses their work directories, and reaches the sessions of other clients.
    if (!listener->path.empty() && check_enabled("service-socket-closed"))
        settings.options.push_back("--deny=" + listener->path);
    if (listener->path.empty() && token.empty() && check_enabled("service-address-closed"))
        settings.options.push_back("--deny=connect:" + listener->address);
    // A page in a browser reaches loopback, but cannot know a token.
    const bool no_browsers = token.empty() && listener->path.empty() && check_enabled("browsers-kept-out");
    const bool asked = check_enabled("token-asked-for");
    if (tls)
        if (const auto given = jobs::http::give_listener(*tls, listener->socket); !given)
            throw Failure(given.error().text);
    const jobs::http::FrontSettings front{asked ? token : "", no_browsers, max_jobs, tls.has_value()};
    const auto end = jobs::http::serve(settings, *listener, front, tls ? &*tls : nullptr, drain,
                                       [&listener] { say("serving jobs at " + listener->shown); });
    if (!end) throw Failure(end.error().text);
    return *end == jobs::End::good ? 0 : exit_failure;
}

int status_of(jobs::End end) {
    if (end == jobs::End::unwritten) say("the answers could not be written: nobody reads standard output");
    return end == jobs::End::good ? 0 : exit_failure;
}

}  // namespace

int exec(const Arguments& arguments) {
    Platform platform;
    static_cast<void>(find_outer_run(true, platform));
    if (const auto why = obstacle(platform)) throw Failure(*why);
    jobs::Settings settings = read_settings(arguments);
    const std::size_t max_at_once = read_jobs(arguments);
    if (arguments.has("http") || arguments.has("serve")) settings.jobs = max_at_once;
    if (arguments.has("http")) return serve_http(arguments, settings, max_at_once);
    for (const std::string_view option : {"http-token", "tls-cert", "tls-key", "drain"})
        if (arguments.has(option))
            throw Failure(arguments.origin(option) + " needs --http ADDRESS; give that, or leave it out");
    if (arguments.has("serve")) return status_of(jobs::serve(settings, max_at_once));
    const auto text = read_whole(STDIN_FILENO, jobs::max_job);
    if (!text) throw Failure("cannot read the job from standard input: " + text.error().message());
    return status_of(jobs::run_one(*text, settings));
}

}  // namespace callgate::cli
