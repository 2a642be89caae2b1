#include "supervisor/audit/report/report.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <ostream>
#include <sstream>

#include "base/escape.hpp"
#include "base/process/replace_file.hpp"
#include "base/unique_fd.hpp"
#include "base/write_all.hpp"
#include "supervisor/audit/report/collect.hpp"
#include "supervisor/audit/report/markdown.hpp"
#include "supervisor/audit/report/page.hpp"
#include "supervisor/audit/verbs/show_rows.hpp"

namespace callgate::audit {

namespace {

using Writer = void (*)(std::ostream&, const report::Contents&);

constexpr mode_t private_to_owner = 0600;

/// Whether a file is written in place: a character device, a FIFO, or a name of our own descriptors, which
/// is a link by nature. Any other link is replaced, never followed: a run may have left it there.
bool special(const std::string& path) {
    if (path.starts_with("/dev/std") || path.starts_with("/dev/fd/") || path.starts_with("/proc/self/fd/"))
        return true;
    struct stat found {};
    return ::lstat(path.c_str(), &found) == 0 && (S_ISCHR(found.st_mode) || S_ISFIFO(found.st_mode));
}

bool write_in_place(const std::string& path, const std::string& text) {
    const UniqueFd file(::open(path.c_str(), O_WRONLY | O_NOCTTY | O_CLOEXEC));
    return file && write_all(file.get(), text);
}

bool deliver(std::ostream& out, std::ostream& errors, const std::string& path,
             const report::Contents& contents, Writer write) {
    if (path == "-") {
        write(out, contents);
        return true;  // the owner of `out` checks whether it could be written
    }
    std::ostringstream text;
    write(text, contents);
    if (special(path) ? write_in_place(path, text.str()) : replace_file(path, text.str(), private_to_owner))
        return true;
    errors << "cannot write " << terminal_safe(path) << ": " << std::strerror(errno) << '\n';
    return false;
}

}  // namespace

int make_report(std::ostream& out, std::ostream& errors, const ReportOptions& options) {
    std::optional<Opened> log = open_log(errors, options.log, {});
    if (!log) return exit_wrong_use;
    report::Contents contents;
    report::collect(contents, log->reader, errors);
    if (options.html && !deliver(out, errors, *options.html, contents, report::write_page))
        return exit_wrong_use;
    if (options.markdown && !deliver(out, errors, *options.markdown, contents, report::write_markdown))
        return exit_wrong_use;
    return contents.bad_lines > 0 ? exit_finding : 0;
}

}  // namespace callgate::audit
