#include "supervisor/calls/files/terminals.hpp"
#include "supervisor/calls/files/needs.hpp"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <cstdlib>
#include <cstring>

#include "agent/guardian.hpp"
#include "base/directory.hpp"
#include "rules/model/rule.hpp"
#include "supervisor/kernel/acting_identity.hpp"

namespace callgate::calls {

namespace {

constexpr unsigned first_slave_major = 136;

const rules::Rule& run_terminals() {
    static const rules::Rule rule = [] {
        rules::Rule made;
        made.id = "run-terminals";
        made.action = rules::Action::allow;
        made.operations = {rules::Operation::read, rules::Operation::modify, rules::Operation::metadata};
        made.reason = "a terminal that the run made";
        made.built_in = true;
        made.source.file = "built-in";
        return made;
    }();
    return rule;
}

/// Whether a master that was opened by this name belongs to the devpts file system of `slave`. Its node lies
/// in that file system, or beside the directory on which it is mounted (fs/devpts/inode.c). There may be
/// several such file systems, and each counts from 0.
bool same_instance(const char* link, const struct stat& master, const struct stat& slave) {
    if (master.st_dev == slave.st_dev) return true;
    char path[PATH_MAX];
    const ssize_t length = ::readlink(link, path, sizeof path);
    if (length <= 0) return false;
    std::string beside(path, static_cast<std::size_t>(length));
    beside.replace(std::min(beside.rfind('/'), beside.size()), std::string::npos, "/pts");
    struct stat directory {};
    return ::stat(beside.c_str(), &directory) == 0 && directory.st_dev == slave.st_dev;
}

/// Whether descriptor `name` of `process` is the master of slave `index`. Only the device's number counts: a
/// file can imitate the text of a link to the descriptor.
bool is_master(pid_t process, const char* name, const struct stat& slave, int index) {
    const std::string base = "/proc/" + std::to_string(process);
    const std::string link = base + "/fd/" + name;
    struct stat master {};
    if (::stat(link.c_str(), &master) != 0 || !S_ISCHR(master.st_mode) || master.st_rdev != makedev(5, 2) ||
        !same_instance(link.c_str(), master, slave)) {
        return false;
    }
    const UniqueFd fd(::open((base + "/fdinfo/" + name).c_str(), O_RDONLY | O_CLOEXEC));
    char text[512] = {};
    if (!fd || ::read(fd.get(), text, sizeof text - 1) <= 0) return false;
    const char* at = std::strstr(text, "tty-index:");
    return at != nullptr && std::atoi(at + std::strlen("tty-index:")) == index;
}

bool holds_master(pid_t process, const struct stat& slave, int index) {
    const std::string path = "/proc/" + std::to_string(process) + "/fd";
    const kernel::ReadingCaller reading;
    const Directory entries(::opendir(path.c_str()));
    if (!entries) return false;
    while (const dirent* entry = ::readdir(entries.get())) {
        if (entry->d_name[0] != '.' && is_master(process, entry->d_name, slave, index)) return true;
    }
    return false;
}

}  // namespace

std::optional<rules::Verdict> terminal_of_run(FileCall& context, const Object& object,
                                              rules::Operation operation) {
    if (!S_ISCHR(object.status.st_mode)) return std::nullopt;
    const unsigned kind = major(object.status.st_rdev);
    if (kind < first_slave_major || kind > first_slave_major + 7) return std::nullopt;
    struct statfs info {};
    if (::fstatfs(object.pin.get(), &info) != 0 || info.f_type != DEVPTS_SUPER_MAGIC) return std::nullopt;
    const int index = static_cast<int>((kind - first_slave_major) * 256 + minor(object.status.st_rdev));
    rules::Verdict verdict;
    verdict.action = rules::Action::allow;
    verdict.decided_by = rules::DecidedBy::rule;
    verdict.rule = &run_terminals();
    verdict.operation = operation;
    if (index == context.files.terminal) return verdict;
    for (const pid_t process : descendants(context.files.guardian))
        if (holds_master(process, object.status, index)) return verdict;
    return std::nullopt;
}

}  // namespace callgate::calls
