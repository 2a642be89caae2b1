// Fuzzes a log that an attacker wrote, as the verbs of `callgate audit` read it: ./dev fuzz.
//
// An input is the file. Besides memory errors and undefined behaviour three things are checked. Reading ends,
// and every line is a record or is reported as malformed. The printed text shows nothing on a terminal but
// itself. The export is JSON.
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <sstream>
#include <string>
#include <string_view>

#include "base/escape.hpp"
#include "supervisor/audit/read/reader.hpp"
#include "supervisor/audit/report/report.hpp"
#include "supervisor/audit/verbs/export.hpp"
#include "supervisor/audit/verbs/show.hpp"

using namespace callgate;

namespace {

[[noreturn]] void broken(const char* what, std::string_view shown = {}) {
    std::fprintf(stderr, "%s %.*s\n", what, static_cast<int>(shown.size()), shown.data());
    std::abort();
}

/// The input as a file.
const std::string& file(const std::uint8_t* data, std::size_t size) {
    static const int fd = ::memfd_create("log", MFD_CLOEXEC);
    static const std::string path = "/proc/self/fd/" + std::to_string(fd);
    if (::ftruncate(fd, 0) != 0 || ::pwrite(fd, data, size, 0) != static_cast<ssize_t>(size)) std::abort();
    return path;
}

void read_lines(const std::string& path, std::size_t lines) {
    audit::Reader reader = audit::Reader::open(path).value();
    std::size_t steps = 0;
    for (auto step = reader.next(); step != audit::Reader::Step::end; step = reader.next()) {
        if (++steps > lines) broken("more lines than the file has");
        if (step == audit::Reader::Step::bad && reader.problem().empty())
            broken("a bad line without a reason");
        audit::Entry quick;
        if (audit::scan_decision(reader.line(), quick)) {
            const auto slow = audit::parse_record(reader.line());
            if (!slow || slow->object != quick.object || slow->verdict != quick.verdict ||
                slow->rule != quick.rule || slow->sequence != quick.sequence || slow->host != quick.host)
                broken("a line that is read in two ways", reader.line());
        }
        if (reader.line_number() != steps) broken("a line with another's number");
    }
    if (steps != lines) broken("a line was passed over");
    static_cast<void>(audit::last_record(path));
}

void check_shown(const std::ostringstream& shown) {
    std::string text = shown.str();
    std::erase(text, '\n');
    if (terminal_safe(text) != text) broken("text that a terminal would obey:", terminal_safe(text));
}

/// The status is good, or reports malformed lines.
void check_status(int status) {
    if (status != 0 && status != 1) broken("another status than 0 and 1");
}

void show_all(const std::string& path) {
    audit::ShowOptions every{.log = {.log = path}};
    audit::ShowOptions some = every;
    some.filter = {.verdict = "deny", .operation = "write", .object = "/**/*a*", .since = "2026-11-20"};
    for (const auto& options : {every, some}) {
        std::ostringstream out, errors;
        check_status(audit::show(out, errors, options));
        check_shown(out);
        check_shown(errors);
    }
    for (const char* by : {"rule", "object", "program"}) {
        for (const bool json : {false, true}) {
            std::ostringstream out, errors;
            check_status(audit::summary(out, errors, {.log = {.log = path}, .by = by, .json = json}));
            check_shown(out);
            check_shown(errors);
        }
    }
}

/// The page has only its own elements, whatever the log holds.
void report_all(const std::string& path) {
    std::ostringstream page, markdown, errors;
    check_status(audit::make_report(page, errors, {.log = {.log = path}, .html = "-"}));
    check_status(audit::make_report(markdown, errors, {.log = {.log = path}, .markdown = "-"}));
    check_shown(markdown);
    check_shown(errors);
    const std::string text = page.str();
    const auto count = [&text](std::string_view what) {
        std::size_t found = 0;
        for (std::size_t at = 0; (at = text.find(what, at)) != std::string::npos; ++at) ++found;
        return found;
    };
    if (count("<script") != 2 || count("</script") != 2 || count("<!--") != 0 || count("<title>") != 1)
        broken("an element that is not the page's own");
}

/// Exports every record in every format. Each line of a JSON format is JSON, in ASCII.
void export_all(const std::string& path) {
    for (const std::string_view format : audit::export_formats()) {
        std::ostringstream out, errors;
        check_status(audit::export_log(out, errors, {.log = {.log = path}, .format = std::string(format)}));
        check_shown(errors);
        std::string text = out.str();
        if (format == "csv") {
            std::erase(text, '\r');
            out.str(text);
            check_shown(out);
            continue;
        }
        if (std::any_of(text.begin(), text.end(), [](char one) { return one < ' ' && one != '\n'; }))
            broken("what is exported is not ASCII", format);
        std::istringstream lines(text);
        for (std::string line; std::getline(lines, line);)
            if (!nlohmann::json::accept(line)) broken("an exported line is not JSON", line);
    }
}

}  // namespace

extern "C" int LLVMFuzzerInitialize(int*, char***) { return 0; }

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::string& path = file(data, size);
    read_lines(path, static_cast<std::size_t>(std::count(data, data + size, '\n')));
    show_all(path);
    report_all(path);
    export_all(path);
    return 0;
}
