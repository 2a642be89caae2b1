#include "supervisor/calls/exec/binfmt.hpp"

#include <sys/stat.h>

#include <fstream>
#include <string>

#include "base/directory.hpp"

namespace callgate::calls {

namespace {

/// The file that an entry of binfmt_misc names now; "" if the entry is switched off or names none.
std::string interpreter_of(const std::string& entry) {
    std::ifstream file(entry);
    std::string line;
    constexpr std::string_view title = "interpreter ";
    if (!std::getline(file, line) || line != "enabled") return {};
    while (std::getline(file, line)) {
        if (line.starts_with(title)) return line.substr(title.size());
    }
    return {};
}

}  // namespace

bool is_binfmt_interpreter(const Object& program) {
    const std::string place = "/proc/sys/fs/binfmt_misc";
    const Directory entries(::opendir(place.c_str()));
    if (!entries) return false;
    while (const dirent* entry = ::readdir(entries.get())) {
        const std::string name = entry->d_name;
        if (name.starts_with('.') || name == "register" || name == "status") continue;
        const std::string interpreter = interpreter_of(place + '/' + name);
        struct stat status {};
        if (!interpreter.empty() && ::stat(interpreter.c_str(), &status) == 0 &&
            status.st_ino == program.status.st_ino && status.st_dev == program.status.st_dev) {
            return true;
        }
    }
    return false;
}

}  // namespace callgate::calls
