#include "supervisor/cli/lasting_home.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstring>

#include "base/at_or_beneath.hpp"
#include "base/make_directories.hpp"
#include "base/open_without_links.hpp"
#include "base/read_whole.hpp"
#include "base/sha256.hpp"
#include "base/test_switch.hpp"
#include "base/words.hpp"
#include "base/write_all.hpp"
#include "supervisor/cli/failure.hpp"
#include "supervisor/cli/rule_options.hpp"
#include "supervisor/cli/rule_text.hpp"

namespace callgate::cli {

namespace {

constexpr std::size_t max_copied = 16U << 20;

/// The work directory's own: its name, and a part of the digest of its whole path.
std::string home_of_project(const Places& places, const std::string& workdir) {
    if (places.homes.empty())
        throw Failure("--home project: there is no place for it: HOME and XDG_DATA_HOME are not set");
    std::string name = workdir.substr(workdir.rfind('/') + 1);
    std::ranges::replace_if(
        name, [](unsigned char byte) { return std::isalnum(byte) == 0; }, '-');
    return places.homes + "/" + name.substr(0, 40) + "-" + sha256_hex(workdir).substr(0, 16);
}

[[noreturn]] void fail(const std::string& what, int error) {
    throw Failure(what + ": " + std::strerror(error));
}

/// Opens a directory beneath `parent`, and makes it if it is not there.
UniqueFd directory_beneath(int parent, const std::string& name, const std::string& what) {
    if (::mkdirat(parent, name.c_str(), 0700) != 0 && errno != EEXIST) fail(what, errno);
    const int links = check_enabled("home-link") ? O_NOFOLLOW : 0;
    UniqueFd directory(::openat(parent, name.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC | links));
    if (directory) return directory;
    if (errno == ENOTDIR)
        throw Failure(what + ": " + name +
                      " in the lasting home is no directory; an earlier run may have made it");
    fail(what, errno);
}

/// Why the file may not be copied; "" if it may.
std::string reason_against(const std::string& file, const rules::RuleSet& base) {
    const rules::Verdict verdict = base.evaluate({rules::Operation::read, rules::FileObject{file}, {}, {}});
    if (verdict.rule == nullptr || verdict.action != rules::Action::deny ||
        !check_enabled("home-credentials"))
        return "";
    return "the rule " + verdict.rule->id + " closes it (" + verdict.rule->reason + ")";
}

void copy(const std::string& file, int home, const Places& places, const rules::RuleSet& base) {
    const std::string what = "--home-from " + file;
    if (const std::string why = reason_against(file, base); !why.empty())
        throw Failure(what + ": " + why +
                      ", and such files are never copied; log in within the lasting home");
    const UniqueFd source = open_without_links(file.c_str(), O_RDONLY | O_NONBLOCK | O_NOCTTY);
    if (!source && errno == ELOOP)
        throw Failure(what + ": this is a symbolic link; name the file that it leads to");
    if (!source) fail(what, errno);
    struct stat status {};
    if (::fstat(source.get(), &status) != 0) fail(what, errno);
    if (!S_ISREG(status.st_mode)) throw Failure(what + ": this is no regular file");
    const Result<std::string> text = read_whole(source.get(), max_copied);
    if (!text) fail(what, text.error().value());
    if (text->size() > max_copied) throw Failure(what + ": the file is larger than 16 MiB");
    std::vector<std::string> names = split(file.substr(places.home.size() + 1), '/');
    UniqueFd directory(::fcntl(home, F_DUPFD_CLOEXEC, 3));
    for (std::size_t index = 0; index + 1 < names.size(); ++index)
        directory = directory_beneath(directory.get(), names[index], what);
    const UniqueFd target(::openat(directory.get(), names.back().c_str(),
                                   O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, status.st_mode & 0700));
    if (!target && errno == EEXIST) return;  // it was copied before, or the run has its own
    if (!target) fail(what, errno);
    if (write_all(target.get(), *text)) return;
    const int error = errno;
    static_cast<void>(::unlinkat(directory.get(), names.back().c_str(), 0));
    fail(what, error);
}

}  // namespace

LastingHome choose_lasting_home(const Arguments& arguments, const Places& places, const std::string& workdir,
                                LinkedPaths& linked) {
    LastingHome home;
    const std::optional<std::string> named = arguments.value("home");
    if (!named) {
        if (arguments.has("home-from"))
            throw Failure("--home-from copies into a lasting home: give --home DIR too");
        return home;
    }
    if (arguments.has("private-home"))
        throw Failure("--home and --private-home exclude each other: give one of them");
    const std::string what = arguments.origin("home") + " " + *named;
    const std::string written =
        *named == "project" ? home_of_project(places, workdir) : written_out(*named, places.home);
    home.path = linked.resolve(what, written, true);
    for (const std::string& wide : {places.home, places.account_home, places.homes, workdir})
        if (!wide.empty() && at_or_beneath(wide, home.path))
            throw Failure(what + ": this is or holds " + wide + "; expected a directory of its own");
    if (at_or_beneath(home.path, workdir) && check_enabled("home-apart"))
        throw Failure(what +
                      ": this lies in the work directory, where the run could replace it; expected a "
                      "directory elsewhere");
    for (const std::string& file : arguments.values("home-from")) {
        const std::string origin = arguments.origin("home-from") + " " + file;
        home.files.push_back(linked.resolve_own_name(origin, written_out(file, places.home)));
        if (places.home.empty() || !home.files.back().starts_with(places.home + "/"))
            throw Failure(origin + ": this is not in your home; expected a file such as ~/.gitconfig");
    }
    return home;
}

void make_lasting_home(const LastingHome& home, const Places& places, const std::string& workdir) {
    if (home.path.empty()) return;
    const std::string what = "--home " + home.path;
    if (const Result<void> made = make_directories(home.path); !made) fail(what, made.error().value());
    const UniqueFd directory = open_without_links(home.path.c_str(), O_PATH | O_DIRECTORY);
    if (!directory) fail(what, errno);
    if (const Expected<void> ours = is_only_ours(home.path); !ours)
        throw Failure(what + ": a directory " + ours.error().text + "; expected one of your own");
    // A login shell reads it in place of a file of the user's own, and gets the run's PATH
    // (agent.login-files).
    const UniqueFd profile(
        ::openat(directory.get(), ".profile", O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
    if (home.files.empty()) return;
    const auto base = base_rules(places, workdir, private_directory_name("RUN"));
    for (const std::string& file : home.files) copy(file, directory.get(), places, *base);
}

}  // namespace callgate::cli
