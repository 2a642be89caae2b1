#include "supervisor/cli/run_options.hpp"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/sysinfo.h>

#include <algorithm>
#include <fstream>

#include "base/io_priority.hpp"
#include "base/number.hpp"
#include "base/words.hpp"
#include "rules/model/limits.hpp"
#include "supervisor/cli/failure.hpp"
#include "supervisor/cli/kept_capabilities.hpp"
#include "supervisor/cli/platform.hpp"
#include "supervisor/cli/rule_options.hpp"
#include "supervisor/run/desktop.hpp"

namespace callgate::cli {

namespace {

[[noreturn]] void fail(const Arguments& arguments, std::string_view option, std::string_view value,
                       std::string_view expected) {
    throw Failure(arguments.origin(option) + " " + std::string(value) + ": expected " +
                  std::string(expected));
}

std::optional<std::chrono::milliseconds> read_duration(const Arguments& arguments, std::string_view option) {
    const std::optional<std::string> value = arguments.value(option);
    if (!value) return std::nullopt;
    const std::optional<std::chrono::milliseconds> duration = rules::parse_duration(*value);
    if (!duration || duration->count() <= 0)
        fail(arguments, option, *value, "a duration above 0 such as 90, 1500ms, 30s, 2m or 1h");
    return duration;
}

int read_descriptor(const Arguments& arguments, std::string_view option, std::string_view text) {
    const std::string_view digits = text.starts_with("fd:") ? text.substr(3) : text;
    const std::optional<int> number = parse_number<int>(digits);
    if (!number || *number < 0) fail(arguments, option, text, "the number of an open descriptor");
    if (::fcntl(*number, F_GETFD) < 0)
        throw Failure(arguments.origin(option) + " " + std::string(text) + ": this descriptor is not open");
    return *number;
}

/// The index of the word that the option has, or a Failure with the nearest word.
std::size_t read_word(const Arguments& arguments, std::string_view option,
                      std::span<const std::string_view> words) {
    const std::string value = arguments.value(option).value_or(std::string(words[0]));
    const auto found = std::find(words.begin(), words.end(), value);
    if (found != words.end()) return static_cast<std::size_t>(found - words.begin());
    fail(arguments, option, value, joined(words, " or ") + suggestion(value, words));
}

std::optional<std::uint64_t> read_count(const Arguments& arguments, std::string_view option) {
    const std::optional<std::string> value = arguments.value(option);
    if (!value) return std::nullopt;
    const std::optional<std::uint64_t> count = parse_number<std::uint64_t>(*value);
    if (!count || *count == 0) fail(arguments, option, *value, "a whole number above 0 such as 256");
    return count;
}

std::optional<std::uint64_t> read_size(const Arguments& arguments, std::string_view option) {
    const std::optional<std::string> value = arguments.value(option);
    if (!value) return std::nullopt;
    const std::optional<std::uint64_t> size = rules::parse_size(*value);
    if (!size || *size == 0)
        fail(arguments, option, *value, "a size above 0 such as 100M or 2G (K, M, G, T; alone: bytes)");
    return size;
}

/// A limit above the host's memory would hold nothing; mostly its unit is wrong.
std::uint64_t host_memory() {
    struct sysinfo host {};
    if (::sysinfo(&host) != 0) return UINT64_MAX;
    return std::uint64_t{host.totalram + host.totalswap} * host.mem_unit;
}

/// Size of the file systems that `disk` concerns; one that holds both directories counts once.
std::uint64_t disks_size(const std::string& workdir, const std::string& temporary_place) {
    std::uint64_t total = 0;
    std::optional<dev_t> first;
    for (const std::string& place : {workdir, temporary_place}) {
        struct stat status {};
        struct statvfs disk {};
        if (::stat(place.c_str(), &status) != 0 || ::statvfs(place.c_str(), &disk) != 0 || disk.f_blocks == 0)
            return UINT64_MAX;  // some file systems have no size
        if (first != status.st_dev) total += std::uint64_t{disk.f_blocks} * disk.f_frsize;
        first = status.st_dev;
    }
    return total;
}

/// The largest number of processes on the host (proc_sys_kernel(5)).
std::uint64_t host_processes() {
    std::ifstream file("/proc/sys/kernel/pid_max");
    std::uint64_t most = 0;
    return file >> most ? most : UINT64_MAX;
}

/// callgate's own hard limit; it cannot be raised without capabilities.
std::uint64_t hard_limit(__rlimit_resource_t resource) {
    rlimit now{};
    return ::getrlimit(resource, &now) == 0 ? now.rlim_max : RLIM_INFINITY;
}

void refuse_above(const Arguments& arguments, std::string_view option,
                  const std::optional<std::uint64_t>& value, std::uint64_t most, std::string_view whose) {
    if (!value || *value <= most) return;
    fail(arguments, option, *arguments.value(option),
         "at most the " + std::to_string(most) + " that " + std::string(whose));
}

/// The descriptor that answers must be a socket, and the command must not have it.
int read_answering_descriptor(const Arguments& arguments, const std::string& value) {
    const int number = read_descriptor(arguments, "ask", value);
    struct stat status {};
    if (::fstat(number, &status) != 0 || !S_ISSOCK(status.st_mode))
        fail(arguments, "ask", value, "a connected socket, such as one end of a socketpair");
    if (number <= 2) fail(arguments, "ask", value, "a descriptor above 2: the command gets 0, 1 and 2");
    for (const std::string& passed : arguments.values("pass-fd"))
        if (read_descriptor(arguments, "pass-fd", passed) == number)
            throw Failure(arguments.origin("ask") + " " + value + ": " + arguments.origin("pass-fd") + " " +
                          passed + " would let the command answer itself; give it another descriptor");
    return number;
}

approval::AskSettings read_ask(const Arguments& arguments, const std::string& runtime) {
    using Who = approval::AskSettings::Who;
    approval::AskSettings ask;
    ask.runtime_directory = runtime;
    ask.timeout = read_duration(arguments, "ask-timeout").value_or(ask.timeout);
    if (const auto value = arguments.value("notify")) {
        if (*value != "desktop") fail(arguments, "notify", *value, "desktop");
        if (find_busctl().empty())
            throw Failure(
                arguments.origin("notify") +
                " desktop: there is no busctl, which tells the desktop; install systemd, or leave it out");
        ask.notify_desktop = true;
    }
    if (const std::string value = arguments.value("ask").value_or(""); value.starts_with("fd:")) {
        ask.who = Who::descriptor;
        ask.descriptor = read_answering_descriptor(arguments, value);
        return ask;
    }
    constexpr std::string_view askers[] = {"auto", "never", "socket", "tty", "fd:N"};
    constexpr Who whos[] = {Who::automatic, Who::never, Who::socket, Who::terminal};
    const std::size_t chosen = read_word(arguments, "ask", askers);
    if (chosen == std::size(whos)) fail(arguments, "ask", "fd:N", "the number of an open descriptor");
    ask.who = whos[chosen];
    if (ask.who == Who::socket && runtime.empty())
        throw Failure(arguments.origin("ask") + " socket: there is no directory for sockets");
    return ask;
}

/// IOPRIO_PRIO_VALUE of "idle", "best-effort:4", "realtime:0".
int read_io_priority(const Arguments& arguments, const std::string& value) {
    struct Class {
        std::string_view name;
        int number;
    };
    constexpr Class classes[] = {
        {"idle", io_class_idle}, {"best-effort", io_class_best_effort}, {"realtime", io_class_realtime}};
    const std::string word = value.substr(0, value.find(':'));
    const auto level = word.size() == value.size()
                           ? std::optional<int>(word == "idle" ? 0 : 4)
                           : parse_number<int>(std::string_view(value).substr(word.size() + 1));
    for (const Class& one : classes)
        if (one.name == word && level && *level >= 0 && *level <= 7)
            return (one.number << io_class_shift) | *level;
    fail(arguments, "ionice", value, "idle, best-effort:0 to 7, or realtime:0 to 7");
}

void read_process_options(const Arguments& arguments, Request& request) {
    for (const std::string& value : arguments.values("pass-fd")) {
        const int number = read_descriptor(arguments, "pass-fd", value);
        if (number > 2 && std::find(request.pass.begin(), request.pass.end(), number) == request.pass.end())
            request.pass.push_back(number);
    }
    constexpr std::string_view kinds[] = {"end", "wait"};
    request.background =
        read_word(arguments, "background", kinds) == 0 ? agent::Background::end : agent::Background::wait;
    request.die_with_parent = arguments.has("die-with-parent");
    request.keep_capabilities = kept_capabilities(arguments);
    if (const auto value = arguments.value("nice")) {
        const std::optional<int> number = parse_number<int>(*value);
        if (!number || *number < -40 || *number > 40)
            fail(arguments, "nice", *value, "a number from -40 to 40");
        request.nice = *number;
    }
    if (const auto value = arguments.value("ionice"))
        request.io_priority = read_io_priority(arguments, *value);
}

void read_sign_key(const Arguments& arguments, const std::string& home, Request& request,
                   LinkedPaths& linked) {
    const std::optional<std::string> file = arguments.value("sign-key");
    if (!file) return;
    const std::string what = arguments.origin("sign-key") + " " + *file;
    auto key = audit::SigningKey::load(linked.resolve(what, written_out(*file, home), false));
    if (!key) throw Failure(arguments.origin("sign-key") + ": " + key.error().text);
    request.audit.key = std::move(*key);
}

/// Less than this holds no run's beginning and end.
std::optional<std::uint64_t> read_audit_limit(const Arguments& arguments) {
    constexpr std::uint64_t least = 64U << 10U;
    const auto size = read_size(arguments, "audit-limit");
    if (size && *size < least)
        fail(arguments, "audit-limit", *arguments.value("audit-limit"), "at least 64K");
    if (size && arguments.has("no-audit"))
        throw Failure(arguments.origin("audit-limit") + " and " + arguments.origin("no-audit") +
                      " exclude each other; give one of them");
    return size;
}

/// An attacker controls the name: an earlier run may have left a link there. So the name is taken as it
/// is, absolute, before anything runs, and no link is followed there. The names of callgate's own descriptors
/// are links by nature, and mean the descriptor.
OutputTarget output_file(const Arguments& arguments, const std::string& home, std::string_view option,
                         const std::string& value, LinkedPaths& linked) {
    const std::string written = written_out(value, home);
    const std::string last = written.substr(written.rfind('/') + 1);
    if (last.empty() || last == "." || last == "..") fail(arguments, option, value, "the name of a file");
    OutputTarget target;
    target.path = linked.resolve_own_name(arguments.origin(option) + " " + value, written);
    constexpr std::string_view standard[] = {"/dev/stdin", "/dev/stdout", "/dev/stderr"};
    constexpr std::string_view descriptors = "/proc/self/fd/";
    std::string number;
    for (std::size_t index = 0; index < std::size(standard); ++index)
        if (target.path == standard[index]) number = std::to_string(index);
    if (target.path.starts_with(descriptors)) number = target.path.substr(descriptors.size());
    if (number.empty()) return target;
    return {.path = "", .descriptor = read_descriptor(arguments, option, number)};
}

void read_audit(const Arguments& arguments, const Places& places, Request& request, LinkedPaths& linked) {
    read_sign_key(arguments, places.home, request, linked);
    request.audit.limit = read_audit_limit(arguments);
    request.audit.syslog = arguments.has("syslog");
    if (arguments.has("no-audit")) {
        if (request.audit.syslog)
            throw Failure(arguments.origin("syslog") + " and " + arguments.origin("no-audit") +
                          " exclude each other: what goes to the system's log is a copy of the audit log");
        if (arguments.has("audit"))
            throw Failure(arguments.origin("audit") + " and " + arguments.origin("no-audit") +
                          " exclude each other; give one of them");
        request.audit.kind = AuditTarget::Kind::none;
        return;
    }
    if (!arguments.has("audit")) {
        request.audit.kind = AuditTarget::Kind::directory;
        request.audit.path = places.state;
        return;
    }
    const OutputTarget target = read_output_target(arguments, places.home, "audit", TargetKind::any, linked);
    request.audit.kind = target.descriptor >= 0 ? AuditTarget::Kind::descriptor : AuditTarget::Kind::file;
    request.audit.path = target.path;
    request.audit.descriptor = target.descriptor;
}

void read_limits(const Arguments& arguments, Request& request) {
    rules::Limits& limits = request.limits;
    limits.wall = read_duration(arguments, "timeout");
    limits.idle = read_duration(arguments, "idle-timeout");
    limits.cpu = read_duration(arguments, "cpu");
    request.grace = read_duration(arguments, "grace").value_or(request.grace);
    limits.open_files = read_count(arguments, "open-files");
    limits.processes = read_count(arguments, "processes");
    limits.file_size = read_size(arguments, "file-size");
    limits.disk = read_size(arguments, "disk");
    limits.memory = read_size(arguments, "memory");
    if (limits.memory && *limits.memory > host_memory())
        fail(arguments, "memory", *arguments.value("memory"),
             "at most the " + std::to_string(host_memory() >> 20U) + "M that this machine has");
    if (limits.disk) {
        const std::string temporary = private_directory_name("");
        const std::uint64_t most = disks_size(request.workdir, temporary.substr(0, temporary.rfind('/')));
        if (*limits.disk > most)
            fail(
                arguments, "disk", *arguments.value("disk"),
                "at most the " + std::to_string(most >> 20U) + "M of the disk that the work directory is on");
    }
    if (limits.processes)
        refuse_above(arguments, "processes", limits.processes, host_processes(), "this machine has");
    if (limits.open_files)
        refuse_above(arguments, "open-files", limits.open_files, hard_limit(RLIMIT_NOFILE),
                     "callgate's own limit allows (ulimit -Hn)");
    if (limits.file_size)
        refuse_above(arguments, "file-size", limits.file_size, hard_limit(RLIMIT_FSIZE),
                     "callgate's own limit allows (ulimit -Hf, there in KiB)");
}

}  // namespace

Mode read_mode(const Arguments& arguments) {
    const std::string_view modes[] = {name(Mode::enforce), name(Mode::audit)};
    return static_cast<Mode>(read_word(arguments, "mode", modes));
}

OutputTarget read_output_target(const Arguments& arguments, const std::string& home, std::string_view option,
                                TargetKind kind, LinkedPaths& linked) {
    OutputTarget target;
    const std::optional<std::string> value = arguments.value(option);
    if (!value) return target;
    if (value->starts_with("fd:"))
        target.descriptor = read_descriptor(arguments, option, *value);
    else if (kind == TargetKind::descriptor_only)
        fail(arguments, option, *value, "fd:N");
    else if (*value == "-")
        fail(arguments, option, *value, "a file or fd:N; fd:1 is standard output, ./- a file of that name");
    else
        target = output_file(arguments, home, option, *value, linked);
    return target;
}

void read_run_options(const Arguments& arguments, const Places& places, Request& request,
                      LinkedPaths& linked) {
    request.ask = read_ask(arguments, places.runtime);
    request.ask.config_directory = places.config;
    request.home = places.home;
    request.config_home = places.config;
    read_limits(arguments, request);
    read_process_options(arguments, request);
    read_audit(arguments, places, request, linked);
    request.report = read_output_target(arguments, places.home, "report", TargetKind::any, linked);
    request.status =
        read_output_target(arguments, places.home, "status", TargetKind::descriptor_only, linked);
    request.quiet = arguments.has("quiet");
    request.plain_output = arguments.has("plain-output");
    request.verbose = arguments.has("verbose");
    request.hints = !arguments.has("no-hints");
    request.json = arguments.has("json");
}

void require_features(const Arguments& arguments) {
    if (!arguments.has("require")) return;
    const std::vector<Feature> all = features(probe_platform(), try_listener());
    std::vector<std::string_view> names;
    for (const Feature& one : all) names.push_back(one.name);
    for (const std::string& list : arguments.values("require")) {
        for (const std::string& name : split(list, ',')) {
            const auto found = std::find_if(all.begin(), all.end(),
                                            [&name](const Feature& one) { return one.name == name; });
            if (found == all.end()) {
                const std::string near = suggestion(name, names);
                throw Failure(arguments.origin("require") + " " + name + ": unknown feature" +
                              (near.empty() ? "; callgate doctor lists them" : near));
            }
            if (!found->present)
                throw Failure("the required feature " + name + " is missing (" + std::string(found->since) +
                              ")" + (found->help.empty() ? "" : "; " + std::string(found->help)) +
                              "; see callgate doctor, or leave it out of " + arguments.origin("require"));
        }
    }
}

}  // namespace callgate::cli
