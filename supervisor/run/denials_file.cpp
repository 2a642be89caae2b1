#include "supervisor/run/denials_file.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <string_view>
#include <utility>

#include "base/escape.hpp"
#include "supervisor/run/report_parts.hpp"

namespace callgate {

namespace {

constexpr std::string_view heading =
    "[callgate] The sandbox policy denied what stands below. This is a rule, not a fault of the command: "
    "trying again or another way to the same end will be denied too. Do without it, work inside the work "
    "directory, or tell the user what you need and why. Programs chose the names in quotes.\n";
constexpr std::string_view ending = "and more, which this list has no room for\n";

constexpr std::size_t max_name = 200, max_note = 200, max_hint = 300;

/// The text, without its middle where it is long. No character of UTF-8 is cut.
std::string cut(std::string_view text, std::size_t most) {
    if (text.size() <= most) return std::string(text);
    const auto inner = [text](std::size_t at) {
        return (static_cast<unsigned char>(text[at]) & 0xc0) == 0x80;
    };
    std::size_t first = most / 2, last = text.size() - most / 2;
    for (int step = 0; step < 3 && inner(first); ++step) --first;
    for (int step = 0; step < 3 && inner(last); ++step) ++last;
    return std::string(text.substr(0, first)) + "…" + std::string(text.substr(last));
}

std::string quoted_name(std::string_view name) { return json_string(cut(name, max_name)); }

}  // namespace

std::string told_line(const Denial& denial, bool hint) {
    std::string line = "denied: ";
    line += denial.look_up ? "look-up of" : rules::name(denial.operation);
    line += ' ' + quoted_name(denial.object);
    const std::string_view program(denial.program);
    if (!program.empty()) line += " by " + quoted_name(program.substr(program.rfind('/') + 1));
    line += denial.by_nested ? " (of a nested run: " : " (";
    line += denial.by_rule ? "rule " : "";
    line += denial.by_nested ? quoted_name(denial.rule) : cut(terminal_safe(denial.rule), max_note);
    if (!denial.note.empty()) line += ": " + cut(terminal_safe(denial.note), max_note);
    line += ')';
    if (hint && !denial.hint.empty() && denial.hint.size() <= max_hint)
        line += "; the user can allow it with " + denial.hint;
    return line + '\n';
}

Result<DenialsFile> DenialsFile::make(const std::string& path, bool hints) {
    UniqueFd file(
        ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_NOFOLLOW | O_CLOEXEC, 0600));
    if (!file) return errno_code();
    return DenialsFile(std::move(file), hints);
}

int DenialsFile::append(const std::string& text) {
    const ssize_t written = ::write(file_.get(), text.data(), text.size());
    if (written == static_cast<ssize_t>(text.size())) {
        size_ += text.size();
        return 0;
    }
    const int error = written < 0 ? errno : ENOSPC;
    over_ = true;
    if (written > 0) static_cast<void>(::ftruncate(file_.get(), static_cast<off_t>(size_)) == 0);
    return error;
}

int DenialsFile::add(const Denial& denial) {
    if (over_) return 0;
    const std::string text = (size_ == 0 ? std::string(heading) : "") + told_line(denial, hints_);
    if (size_ + text.size() + ending.size() > max_size) return end();
    return append(text);
}

int DenialsFile::end() {
    if (std::exchange(over_, true)) return 0;
    return append(std::string(ending));
}

}  // namespace callgate
