// The place for the run's own control group in version 2 (cgroups(7), the kernel's cgroup-v2.rst).
//
// A group whose members are processes passes no controllers on. So no group can be made beneath callgate's
// own, unless that is the root. A group can be made beside it under two conditions. The group above was
// handed to this user, and it passes its controllers to callgate's group already. That is so in a systemd
// session, with `systemd-run --user --scope`, and in a container whose control groups can be written. The
// limits of callgate's own group must hold for the run too: if it has one, there is no place beside it.
#pragma once

#include <istream>
#include <optional>
#include <string>

namespace callgate::limits {

/// This process's group in the hierarchy of version 2, read from /proc/self/mountinfo and /proc/self/cgroup.
struct UnifiedGroup {
    std::string mount, own;  // directories; `own` is `mount` or lies beneath it
};
[[nodiscard]] std::optional<UnifiedGroup> unified_group(std::istream& mountinfo, std::istream& groups);

/// A directory that groups can be made in, and the controllers that they then have.
struct UnifiedPlace {
    std::string parent;
    bool memory = false, tasks = false;
};
/// Empty if no group can be made. `managed`: this is root under systemd, which can write every group, but may
/// use only delegated ones.
[[nodiscard]] std::optional<UnifiedPlace> unified_place(const UnifiedGroup& group, bool managed);
/// The same for this process.
[[nodiscard]] std::optional<UnifiedPlace> unified_place();

}  // namespace callgate::limits
