#include "supervisor/audit/read/reader.hpp"

#include <unistd.h>

#include <algorithm>

#include "supervisor/audit/read/lines.hpp"
#include "supervisor/audit/write/format.hpp"
#include "supervisor/audit/write/log_file.hpp"

namespace callgate::audit {

namespace {

constexpr std::string_view suffix = ".jsonl";

}  // namespace

struct Reader::State {
    explicit State(Lines opened) : lines(std::move(opened)) {}

    Lines lines;
    Entry entry;
    std::string problem;
};

Reader::Reader(std::unique_ptr<State> state) : state_(std::move(state)) {}
Reader::Reader(Reader&&) noexcept = default;
Reader::~Reader() = default;

Result<Reader> Reader::open(const std::string& path) {
    Result<Lines> lines = Lines::open(path);
    if (!lines) return lines.error();
    return Reader(std::make_unique<State>(std::move(*lines)));
}

Reader::Step Reader::next() {
    State& state = *state_;
    switch (state.lines.next()) {
        case Lines::Step::end:
            return Step::end;
        case Lines::Step::too_long:
            state.problem = "longer than a record can be";
            return Step::bad;
        case Lines::Step::line:
            break;
    }
    if (scan_decision(state.lines.text(), state.entry)) return Step::record;
    Expected<Entry> entry = parse_record(state.lines.text());
    if (!entry) {
        state.problem = entry.error().text;
        return Step::bad;
    }
    state.entry = std::move(*entry);
    return Step::record;
}

const Entry& Reader::entry() const { return state_->entry; }
std::string_view Reader::line() const { return state_->lines.text(); }
const std::string& Reader::problem() const { return state_->problem; }
const std::string& Reader::path() const { return state_->lines.path(); }
std::uint64_t Reader::line_number() const { return state_->lines.number(); }
bool Reader::torn() const { return state_->lines.torn(); }

std::optional<Entry> last_record(const std::string& path) {
    const Result<UniqueFd> fd = open_for_reading(path);
    if (!fd) return std::nullopt;
    const off_t size = ::lseek(fd->get(), 0, SEEK_END);
    std::string tail(static_cast<std::size_t>(std::clamp<off_t>(size, 0, off_t{max_line})), '\0');
    const ssize_t got = ::pread(fd->get(), tail.data(), tail.size(), size - static_cast<off_t>(tail.size()));
    tail.resize(static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
    const std::size_t end = tail.rfind('\n');
    if (end == std::string::npos || end == 0) return std::nullopt;
    const std::size_t before = tail.rfind('\n', end - 1);
    const std::size_t start = before == std::string::npos ? 0 : before + 1;
    Expected<Entry> entry = parse_record(std::string_view(tail).substr(start, end - start));
    if (!entry) return std::nullopt;
    return std::move(*entry);
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
