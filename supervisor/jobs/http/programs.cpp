#include "supervisor/jobs/http/programs.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <set>
#include <string>

#include "supervisor/jobs/http/sandbox_fusion.hpp"

namespace callgate::jobs::http {

namespace {
std::set<std::string, std::less<>> programs;  // of PATH
}  // namespace

bool has_program(std::string_view name) { return programs.contains(name); }

void find_programs() {
    const char* const path = ::getenv("PATH");
    for (std::string_view rest = path == nullptr ? "" : path; !rest.empty();) {
        const std::string directory(rest.substr(0, rest.find(':')));
        rest.remove_prefix(std::min(rest.size(), directory.size() + 1));
        for (const std::string_view name : fusion_programs())
            if (::access((directory + '/' + std::string(name)).c_str(), X_OK) == 0) programs.emplace(name);
    }
}

}  // namespace callgate::jobs::http
