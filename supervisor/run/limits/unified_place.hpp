// Where the run's own control group can be made in version 2 (cgroups(7), the kernel's cgroup-v2.rst).
//
// A group whose members are processes hands no controllers down, so beneath callgate's own group there is no
// place for one, except beneath the root. Beside it there is: the group above was handed to this user (a
// session of systemd's, `systemd-run --user --scope`, a container whose control groups can be written), and
// hands its controllers to callgate's group already. What holds callgate must go on to hold the run: where
// its own group has a limit, there is no place beside it.
#pragma once

#include <istream>
#include <optional>
#include <string>

namespace callgate::limits {

/// This process's group in the hierarchy of version 2, by the texts of /proc/self/mountinfo and
/// /proc/self/cgroup.
struct UnifiedGroup {
    std::string mount, own;  // directories; `own` is `mount` or beneath it
};
[[nodiscard]] std::optional<UnifiedGroup> unified_group(std::istream& mountinfo, std::istream& groups);

/// A directory that groups can be made in, and which controllers they then have.
struct UnifiedPlace {
    std::string parent;
    bool memory = false, tasks = false;
};
/// Nothing where none can be made. `managed`: as root on a system that systemd runs, where only what it has
/// delegated is ours, although everything can be written.
[[nodiscard]] std::optional<UnifiedPlace> unified_place(const UnifiedGroup& group, bool managed);
/// The same for this process.
[[nodiscard]] std::optional<UnifiedPlace> unified_place();

}  // namespace callgate::limits
