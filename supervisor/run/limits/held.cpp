#include "supervisor/run/limits/held.hpp"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "base/directory.hpp"
#include "base/number.hpp"

namespace callgate::limits {

namespace {

/// Threads of this real user on the host, as RLIMIT_NPROC counts them.
std::uint64_t tasks_of_user(uid_t user) {
    const Directory proc(::opendir("/proc"));
    std::uint64_t count = 0;
    while (const dirent* entry = proc ? ::readdir(proc.get()) : nullptr) {
        if (entry->d_name[0] < '0' || entry->d_name[0] > '9') continue;
        std::ifstream status("/proc/" + std::string(entry->d_name) + "/status");
        bool own = false;
        for (std::string line; std::getline(status, line);) {
            std::istringstream fields(line);
            std::string key;
            std::uint64_t value = 0;
            fields >> key >> value;
            if (key == "Uid:") own = value == user;
            if (key == "Threads:" && own) count += value;
        }
    }
    return count;
}

std::uint64_t tasks_beside() {
    const char* const told = ::getenv(beside_variable);
    return told == nullptr ? 0 : parse_number<std::uint64_t>(told).value_or(0);
}

std::string time_text(std::chrono::milliseconds time) {
    return time.count() % 1000 == 0 ? std::to_string(time.count() / 1000) + "s"
                                    : std::to_string(time.count()) + "ms";
}

std::uint64_t number(std::uint64_t value) { return value; }
std::uint64_t number(std::chrono::milliseconds value) { return static_cast<std::uint64_t>(value.count()); }

/// A rule set may state more than its user may have; the tighter limit holds.
agent::Limit within_own(__rlimit_resource_t resource, rlim_t soft, rlim_t hard) {
    rlimit now{};
    if (::getrlimit(resource, &now) != 0) now.rlim_max = RLIM_INFINITY;
    return {resource, {std::min(soft, now.rlim_max), std::min(hard, now.rlim_max)}};
}

}  // namespace

std::vector<agent::Limit> process_limits(const rules::Limits& limits) {
    std::vector<agent::Limit> list;
    if (limits.open_files) list.push_back(within_own(RLIMIT_NOFILE, *limits.open_files, *limits.open_files));
    if (limits.file_size) list.push_back(within_own(RLIMIT_FSIZE, *limits.file_size, *limits.file_size));
    if (limits.cpu) {
        // It lies above the tree's limit, so a tree of one process ends with the outcome `cpu`, too.
        const rlim_t seconds = static_cast<rlim_t>((limits.cpu->count() + 999) / 1000) + 1;
        list.push_back(within_own(RLIMIT_CPU, seconds, seconds + 1));
    }
    // The kernel does not count root.
    if (limits.processes && ::getuid() != 0) {
        const rlim_t most = tasks_of_user(::getuid()) + *limits.processes +
                            std::max<rlim_t>(16, *limits.processes / 4) + tasks_beside();
        rlimit now{};
        if (::getrlimit(RLIMIT_NPROC, &now) == 0)
            list.push_back({RLIMIT_NPROC, {std::min(now.rlim_cur, most), std::min(now.rlim_max, most)}});
    }
    return list;
}

std::string size_text(std::uint64_t bytes) {
    std::string_view units = "KMGT";
    std::string unit;
    while (bytes != 0 && bytes % 1024 == 0 && !units.empty()) {
        bytes /= 1024;
        unit = units.front();
        units.remove_prefix(1);
    }
    return std::to_string(bytes) + unit;
}

std::optional<std::string> exceeded_text(Outcome outcome, const rules::Limits& limits) {
    if (outcome == Outcome::timeout && limits.wall) return "ended by --timeout " + time_text(*limits.wall);
    if (outcome == Outcome::idle_timeout && limits.idle)
        return "ended by --idle-timeout " + time_text(*limits.idle) + ": nothing was written and no CPU used";
    if (outcome == Outcome::memory && limits.memory)
        return "ended: more memory was used than --memory " + size_text(*limits.memory);
    if (outcome == Outcome::processes && limits.processes)
        return "ended: there were to be more processes and threads than --processes " +
               std::to_string(*limits.processes);
    if (outcome == Outcome::cpu && limits.cpu)
        return "ended: more processor time was used than --cpu " + time_text(*limits.cpu);
    if (outcome == Outcome::disk && limits.disk)
        return "ended: more was added to the work directory than --disk " + size_text(*limits.disk);
    if (outcome == Outcome::log_full) return "ended: the audit log is full (--audit-limit)";
    return std::nullopt;
}

std::vector<HeldLimit> held_limits(const rules::Limits& limits, const std::optional<TreePeak>& peak) {
    std::vector<HeldLimit> all;
    const auto add = [&all](std::string_view name, const auto& limit, std::string_view by,
                            std::optional<std::uint64_t> most = std::nullopt) {
        if (limit) all.push_back({name, number(*limit), by, most});
    };
    const auto most = [&peak](std::uint64_t TreePeak::*member) {
        return peak ? std::optional<std::uint64_t>((*peak).*member) : std::nullopt;
    };
    const auto by = [](bool group) { return group ? "cgroup" : "sampled"; };
    add("memory", limits.memory, by(peak && peak->memory_in_group), most(&TreePeak::memory));
    add("processes", limits.processes, by(peak && peak->tasks_in_group), most(&TreePeak::tasks));
    add("cpu", limits.cpu, "sampled");
    add("disk", limits.disk, "sampled");
    add("idle", limits.idle, "sampled");
    add("wall", limits.wall, "timer");
    add("open_files", limits.open_files, "rlimit");
    add("file_size", limits.file_size, "rlimit");
    return all;
}

}  // namespace callgate::limits
