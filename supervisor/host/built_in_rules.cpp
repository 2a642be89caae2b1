#include "supervisor/host/built_in_rules.hpp"

#include <mntent.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <memory>

#include "base/test_switch.hpp"

namespace callgate {

namespace {

bool is_directory(const std::string& path) {
    struct stat status {};
    return ::lstat(path.c_str(), &status) == 0 && S_ISDIR(status.st_mode);
}

rules::Rule built_in_rule(std::string id, rules::OperationSet operations, std::string reason) {
    rules::Rule rule;
    rule.id = std::move(id);
    rule.action = rules::Action::deny;
    rule.operations = operations;
    rule.reason = std::move(reason);
    rule.built_in = true;
    rule.source.file = "built-in";
    return rule;
}

void add_directories(std::vector<rules::Rule>& all, const Places& places) {
    constexpr rules::OperationSet closed =
        rules::write_operations | rules::OperationSet{rules::Operation::read};
    rules::Rule files = built_in_rule("callgate-directories", closed, "callgate's own files");
    rules::Rule sockets =
        built_in_rule("callgate-sockets", rules::network_operations, "callgate's own sockets");
    std::vector<std::string> directories = {places.state, places.runtime};
    if (!places.config.empty()) directories.push_back(places.config + "/pending");
    for (const std::string& directory : directories) {
        if (directory.empty()) continue;
        files.when.path.push_back(rules::Glob::beneath(directory));
        sockets.when.unix_socket.push_back(rules::Glob::beneath(directory));
    }
    if (files.when.path.empty()) return;
    all.push_back(std::move(files));
    all.push_back(std::move(sockets));
}

/// Closes the homes of other work directories: they hold logins.
void add_homes(std::vector<rules::Rule>& all, const Places& places, const std::string& home) {
    if (places.homes.empty()) return;
    constexpr rules::OperationSet closed =
        rules::write_operations | rules::OperationSet{rules::Operation::read};
    const bool own = home.starts_with(places.homes + "/");
    rules::Rule files = built_in_rule("callgate-homes", closed, "the homes of other work directories");
    rules::Rule sockets = built_in_rule("callgate-homes-sockets", rules::network_operations,
                                        "the homes of other work directories");
    files.when.path.push_back(rules::Glob::beneath(places.homes));
    sockets.when.unix_socket.push_back(rules::Glob::beneath(places.homes));
    if (own) files.except.emplace().path.push_back(rules::Glob::beneath(home));
    if (own) sockets.except.emplace().unix_socket.push_back(rules::Glob::beneath(home));
    all.push_back(std::move(files));
    all.push_back(std::move(sockets));
}

/// Closes the queues' file system where it is mounted (mq_overview(7)). There open(2) gives a queue as
/// mq_open(3) does, and unlink(2) removes one.
void add_queues(std::vector<rules::Rule>& all) {
    constexpr rules::OperationSet closed =
        rules::write_operations | rules::OperationSet{rules::Operation::read};
    rules::Rule rule =
        built_in_rule("callgate-queues", closed, "a run reaches message queues by mq_open(3) alone");
    const std::unique_ptr<FILE, int (*)(FILE*)> mounts(::setmntent("/proc/self/mounts", "re"), ::endmntent);
    while (const mntent* const mount = mounts ? ::getmntent(mounts.get()) : nullptr) {
        if (std::string_view(mount->mnt_type) == "mqueue")
            rule.when.path.push_back(rules::Glob::beneath(mount->mnt_dir));
    }
    if (!rule.when.path.empty()) all.push_back(std::move(rule));
}

/// Adds the file and, if it is a link, the link's own name: replacing the link replaces the rules, too.
void add_file(rules::Rule& rule, const std::string& file) {
    const std::string resolved = canonical(file);
    rule.when.path.push_back(rules::Glob::literal(resolved));
    if (file.find('/') == std::string::npos) return;
    if (const std::string name = own_name(file); name != resolved)
        rule.when.path.push_back(rules::Glob::literal(name));
}

/// The links that later runs come through, and what they lead to.
void add_links(rules::Rule& rule, const Places& places) {
    for (const FollowedLink& link : places.links)
        if (link.ours) rule.when.path.push_back(rules::Glob::literal(link.path));
    for (const Places::Linked& linked : places.linked)
        rule.when.path.push_back(is_directory(linked.real) ? rules::Glob::beneath(linked.real)
                                                           : rules::Glob::literal(linked.real));
}

}  // namespace

void add_list_of_denials(std::vector<rules::Rule>& all, const std::string& file) {
    rules::Rule closed =
        built_in_rule("callgate-denials", rules::write_operations, "the list of what was denied");
    closed.when.path.push_back(rules::Glob::literal(file));
    rules::Rule open =
        built_in_rule("callgate-denials-read", rules::Operation::read, "the list of what was denied");
    open.action = rules::Action::allow;
    open.when.path.push_back(rules::Glob::literal(file));
    all.push_back(std::move(closed));
    all.push_back(std::move(open));
}

std::string denials_name(const std::string& private_directory) { return private_directory + ".denials"; }

std::vector<rules::Rule> built_in_rules(const Places& places, const std::vector<std::string>& rule_files,
                                        const std::vector<std::string>& own_files,
                                        const std::vector<std::string>& fixed, const std::string& denials,
                                        const std::string& home) {
    std::vector<rules::Rule> all;
    add_directories(all, places);
    add_homes(all, places, home);
    add_queues(all);
    // Later runs trust the files that were loaded, and every profile and rule that could be.
    rules::Rule trusted =
        built_in_rule("callgate-rules", rules::write_operations, "rules of this and later runs");
    if (!places.config.empty()) trusted.when.path.push_back(rules::Glob::beneath(places.config));
    for (const std::string& file : rule_files) add_file(trusted, file);
    if (check_enabled("own-links")) add_links(trusted, places);
    for (const char* const program : {"", "-tls"})  // callgate-tls lies beside it
        if (!places.binary.empty())
            trusted.when.path.push_back(rules::Glob::literal(places.binary + program));
    if (!trusted.when.path.empty()) all.push_back(std::move(trusted));
    // Some files there may be written without the check that Landlock makes for the rest of /proc/PID.
    rules::Rule process =
        built_in_rule("callgate-process", rules::write_operations, "callgate's own process");
    process.when.path.push_back(rules::Glob::beneath("/proc/" + std::to_string(::getpid())));
    all.push_back(std::move(process));
    constexpr rules::OperationSet closed =
        rules::write_operations | rules::OperationSet{rules::Operation::read};
    rules::Rule audit = built_in_rule("callgate-audit", closed, "the audit log, its key, and the report");
    for (const std::string& file : own_files) {
        if (!file.empty()) audit.when.path.push_back(rules::Glob::literal(file));
    }
    if (!audit.when.path.empty()) all.push_back(std::move(audit));
    rules::Rule roots = built_in_rule("callgate-roots", rules::Operation::remove,
                                      "the work directory and the private one stay where they are");
    for (const std::string& directory : fixed)
        if (!directory.empty()) roots.when.path.push_back(rules::Glob::literal(directory));
    if (!roots.when.path.empty()) all.push_back(std::move(roots));
    if (!denials.empty()) add_list_of_denials(all, denials);
    if constexpr (test_switches)
        std::erase_if(all, [](const rules::Rule& rule) { return !check_enabled(rule.id); });
    return all;
}

std::vector<rules::Rule> name_service_rules(const std::vector<std::string>& replaced) {
    std::vector<rules::Rule> all;
    rules::Rule rule = built_in_rule("callgate-names", rules::Operation::connect,
                                     "looks names up that callgate would not see");
    rule.error = ENOENT;
    for (const char* const pattern :
         {"/{run,var/run}/{nscd,unscd,avahi-daemon}/**", "/{run,var/run}/systemd/resolve/**",
          "/var/lib/sss/pipes/**", "/{run,var/run}/samba/winbindd/**",
          "/var/lib/samba/winbindd_privileged/**", "/{run,var/run}/dbus/system_bus_socket"}) {
        if (auto glob = rules::Glob::compile(pattern, rules::GlobKind::path))
            rule.when.unix_socket.push_back(std::move(*glob));
    }
    if (check_enabled(rule.id)) all.push_back(std::move(rule));
    if (replaced.empty()) return all;
    rules::Rule files = built_in_rule(std::string(name_files_rule), rules::Operation::read,
                                      "handed over in a form that asks callgate");
    files.action = rules::Action::allow;
    files.when.program.push_back(rules::Glob::beneath("/"));
    for (const std::string& path : replaced) files.when.path.push_back(rules::Glob::literal(path));
    all.push_back(std::move(files));
    return all;
}

}  // namespace callgate
