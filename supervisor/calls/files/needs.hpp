// The needs of the handlers of files.
#pragma once

#include <sys/stat.h>

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "base/process/capabilities.hpp"
#include "base/test_switch.hpp"
#include "rules/model/operation.hpp"
#include "supervisor/calls/call.hpp"
#include "supervisor/calls/create_file.hpp"
#include "supervisor/calls/files/static_paths.hpp"
#include "supervisor/calls/name_lock.hpp"

namespace callgate::calls {

class CrossDirectoryRename;
class OpaqueMemories;
class SettingsLocks;
class SharedMemory;

struct FileNeeds {
    const rules::Plan& plan;
    const rules::StaticGrants& grants;
    const rules::RenameCheck& moves;
    /// Held from judging a name to acting on it: no directory moves between the two (name_lock.hpp).
    NameLock& names;
    /// Set if Landlock forbids callgate's own threads to move anything to another directory (ABI 1).
    CrossDirectoryRename* cross_directory_rename = nullptr;
    pid_t guardian = -1;
    SharedMemory* shared_memory = nullptr;  // null: the rules alone decide on it
    SettingsLocks* locks = nullptr;
    OpaqueMemories* opaque = nullptr;  // null: no process is opaque
    int terminal = -1;                 // N of /dev/pts/N, if the run was given one
    CapabilitySet keep_capabilities = 0;
    /// The callers are in another control group, whose list of devices does not bind callgate, and in another
    /// PID namespace.
    bool in_container = false;
    /// The text of an object that the run gets in a form of its own, in place of the object; may be empty.
    std::function<std::optional<std::string>(const struct stat& object)> replacement{};
    const std::map<std::string, std::string>* links = nullptr;  // names in the rules, and where they lead
    const std::string* login_file = nullptr;  // that a login shell gets in place of the user's; null: empty
};

struct FileCall : Call {
    const FileNeeds& files;
    StaticPaths& static_paths;  // the receiving thread's own
};

}  // namespace callgate::calls
