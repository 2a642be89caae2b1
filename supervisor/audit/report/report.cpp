#include "supervisor/audit/report/report.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <ostream>

#include "agent/unique_fd.hpp"
#include "supervisor/audit/escape.hpp"
#include "supervisor/audit/report/collect.hpp"
#include "supervisor/audit/report/markdown.hpp"
#include "supervisor/audit/report/page.hpp"
#include "supervisor/audit/show_rows.hpp"

namespace callgate::audit {

namespace {

using Writer = void (*)(std::ostream&, const report::Contents&);

/// Something that is written to in place: a device, a pipe.
bool special(const std::string& path) {
    struct stat found {};
    return ::stat(path.c_str(), &found) == 0 && !S_ISREG(found.st_mode);
}

bool write_in_place(const std::string& path, const report::Contents& contents, Writer write) {
    std::ofstream file(path, std::ios::binary);
    write(file, contents);
    file.close();
    return file.good();
}

/// Beside the file first, so that nobody ever sees half of it; `errno` says why not.
bool write_whole(const std::string& path, const report::Contents& contents, Writer write) {
    std::string beside = path + ".XXXXXX";
    if (!UniqueFd(::mkostemp(beside.data(), O_CLOEXEC))) return false;
    if (write_in_place(beside, contents, write) && ::rename(beside.c_str(), path.c_str()) == 0) return true;
    const int why = errno;
    ::unlink(beside.c_str());
    errno = why;
    return false;
}

bool deliver(std::ostream& out, std::ostream& errors, const std::string& path,
             const report::Contents& contents, Writer write) {
    if (path == "-") {
        write(out, contents);
        return true;  // whether it could be written is seen by who owns `out`
    }
    errno = 0;
    if (special(path) ? write_in_place(path, contents, write) : write_whole(path, contents, write))
        return true;
    errors << "cannot write " << terminal_safe(path) << ": " << std::strerror(errno == 0 ? EIO : errno)
           << '\n';
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
