#include "supervisor/cli/in_run.hpp"

#include <fcntl.h>
#include <sys/stat.h>

#include <cstdlib>
#include <string_view>

#include "base/read_whole.hpp"
#include "base/unique_fd.hpp"
#include "supervisor/cli/failure.hpp"
#include "supervisor/nested/outer_run.hpp"

namespace callgate::cli {

bool says_it_is_in_run() {
    const char* const value = std::getenv("CALLGATE");
    return value != nullptr && std::string_view(value) == "1";  // elsewhere it names a program
}

void require_run(const std::string& what) {
    if (says_it_is_in_run()) return;
    const Expected<nested::OuterRun> run = nested::OuterRun::find();
    if (!run) throw Failure(what + " is for programs within a run: callgate run -- COMMAND");
    ::setenv("CALLGATE", "1", 0);
    ::setenv("CALLGATE_DENIALS", run->denials().c_str(), 0);
}

std::string list_of_denials(std::size_t max) {
    const char* const name = std::getenv("CALLGATE_DENIALS");
    const UniqueFd file(name != nullptr ? ::open(name, O_RDONLY | O_CLOEXEC | O_NONBLOCK) : -1);
    struct stat status {};
    if (!file || ::fstat(file.get(), &status) != 0 || !S_ISREG(status.st_mode)) return "";
    const auto size = static_cast<std::size_t>(status.st_size);
    if (size > max) ::lseek(file.get(), static_cast<off_t>(size - max), SEEK_SET);
    Result<std::string> text = read_whole(file.get(), max);
    if (!text) return "";
    return size > max ? text->substr(text->find('\n') + 1) : *std::move(text);
}

}  // namespace callgate::cli
