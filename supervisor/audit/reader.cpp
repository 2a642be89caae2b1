#include "supervisor/audit/reader.hpp"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>

#include "supervisor/audit/format.hpp"
#include "supervisor/audit/log_file.hpp"

namespace callgate::audit {

namespace {

Result<UniqueFd> open_for_reading(const std::string& path) {
    // O_NONBLOCK: a FIFO must not hold us before it is seen for what it is.
    UniqueFd fd(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
    if (!fd) return last_error(errno);
    struct stat status {};
    if (::fstat(fd.get(), &status) != 0) return last_error(errno);
    if (!S_ISREG(status.st_mode)) return last_error(EINVAL);
    return fd;
}

constexpr std::string_view suffix = ".jsonl";

}  // namespace

struct Reader::State {
    std::string first, path;
    UniqueFd fd;
    unsigned segment = 1;
    std::string bytes;  // read and not yet given out, from `begin` on
    std::size_t begin = 0;
    std::string_view line;
    std::uint64_t number = 0;
    bool skipping = false;  // within a line that is too long
    Entry entry;
    std::string problem;

    bool read_more();
    bool next_segment();
    std::optional<std::string_view> whole_line();
};

/// False at the end of this file (or where it cannot be read: what is there cannot be told from nothing).
bool Reader::State::read_more() {
    bytes.erase(0, begin);
    begin = 0;
    constexpr std::size_t block = 65536;
    const std::size_t before = bytes.size();
    bytes.resize(before + block);
    const ssize_t got = ::read(fd.get(), bytes.data() + before, block);
    bytes.resize(before + static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
    return got > 0;
}

bool Reader::State::next_segment() {
    // A torn line ends its segment only when there is a next one; a grown file is read on first.
    const std::string next = segment_path(first, segment + 1);
    if (next.empty()) return false;
    Result<UniqueFd> opened = open_for_reading(next);
    if (!opened) return false;
    if (read_more()) return true;
    fd = std::move(*opened);
    path = next;
    ++segment;
    number = 0;
    bytes.clear();
    skipping = false;
    return true;
}

std::optional<std::string_view> Reader::State::whole_line() {
    for (std::size_t searched = begin;;) {
        const std::size_t newline = bytes.find('\n', searched);
        if (newline != std::string::npos) {
            const std::string_view found = std::string_view(bytes).substr(begin, newline - begin);
            begin = newline + 1;
            return found;
        }
        if (bytes.size() - begin > longest_line) {
            skipping = true;
            begin = bytes.size();
        }
        searched = bytes.size() - begin;
        if (!read_more() && !next_segment()) return std::nullopt;
        searched = std::min(searched, bytes.size());
    }
}

Reader::Reader(std::unique_ptr<State> state) : state_(std::move(state)) {}
Reader::Reader(Reader&&) noexcept = default;
Reader& Reader::operator=(Reader&&) noexcept = default;
Reader::~Reader() = default;

Result<Reader> Reader::open(const std::string& path) {
    Result<UniqueFd> fd = open_for_reading(path);
    if (!fd) return fd.error();
    auto state = std::make_unique<State>();
    state->first = state->path = path;
    state->fd = std::move(*fd);
    return Reader(std::move(state));
}

Reader::Step Reader::next() {
    State& state = *state_;
    const std::optional<std::string_view> line = state.whole_line();
    if (!line) return Step::end;
    state.line = *line;
    ++state.number;
    if (state.skipping || line->size() >= longest_line) {
        state.skipping = false;
        state.problem = "longer than a record can be";
        state.line = {};
        return Step::bad;
    }
    std::optional<Entry> entry = parse_record(*line, state.problem);
    if (!entry) return Step::bad;
    state.entry = std::move(*entry);
    return Step::record;
}

const Entry& Reader::entry() const { return state_->entry; }
std::string_view Reader::line() const { return state_->line; }
const std::string& Reader::problem() const { return state_->problem; }
const std::string& Reader::path() const { return state_->path; }
std::uint64_t Reader::line_number() const { return state_->number; }
bool Reader::torn() const { return state_->skipping || state_->begin < state_->bytes.size(); }

std::optional<Entry> last_record(const std::string& path) {
    const Result<UniqueFd> fd = open_for_reading(path);
    if (!fd) return std::nullopt;
    const off_t size = ::lseek(fd->get(), 0, SEEK_END);
    std::string tail(static_cast<std::size_t>(std::clamp<off_t>(size, 0, off_t{longest_line})), '\0');
    const ssize_t got = ::pread(fd->get(), tail.data(), tail.size(), size - static_cast<off_t>(tail.size()));
    tail.resize(static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
    const std::size_t end = tail.rfind('\n');
    if (end == std::string::npos || end == 0) return std::nullopt;
    const std::size_t before = tail.rfind('\n', end - 1);
    const std::size_t start = before == std::string::npos ? 0 : before + 1;
    std::string problem;
    return parse_record(std::string_view(tail).substr(start, end - start), problem);
}

std::string segment_path(const std::string& first, unsigned number) {
    if (!first.ends_with(suffix) || is_later_segment(first)) return {};
    return first.substr(0, first.size() - suffix.size()) + '.' + std::to_string(number) + std::string(suffix);
}

bool is_later_segment(std::string_view name) {
    if (!name.ends_with(suffix)) return false;
    name.remove_suffix(suffix.size());
    const std::size_t digits = name.find_last_not_of("0123456789");
    return digits != std::string_view::npos && digits + 1 < name.size() && name[digits] == '.';
}

}  // namespace callgate::audit
