// Reads the lines of a log and its later segments, in blocks and without looking into them.
//
// The file is hostile. A line longer than a record can be is returned as a bad one, and memory is bounded by
// twice that length.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.hpp"
#include "base/unique_fd.hpp"

namespace callgate::audit {

/// Opens a regular file for reading, never a FIFO or device that would block us. EINVAL: it is anything else.
[[nodiscard]] Result<UniqueFd> open_for_reading(const std::string& path);

class Lines {
public:
    /// Errors: those of open(2); EINVAL if it is no regular file.
    static Result<Lines> open(const std::string& path);

    enum class Step : std::uint8_t { line, too_long, end };
    /// `line`: `text` is the next line, valid until the next step. `end`: nothing more for now; call it again
    /// when the file has grown.
    Step next();

    [[nodiscard]] std::string_view text() const { return text_; }
    /// The file and line that the last step was about, from 1.
    [[nodiscard]] const std::string& path() const { return path_; }
    [[nodiscard]] std::uint64_t number() const { return number_; }
    /// At `end`: the file's last line is unfinished.
    [[nodiscard]] bool torn() const { return skipping_ || begin_ < bytes_.size(); }
    /// How many unfinished lines ended a segment before the last one.
    [[nodiscard]] std::uint64_t torn_segments() const { return torn_segments_; }

private:
    bool read_more();
    bool next_segment();

    std::string first_, path_;
    UniqueFd fd_;
    unsigned segment_ = 1;
    std::string bytes_;  // read and not yet given out, from `begin_` on
    std::size_t begin_ = 0;
    std::string_view text_;
    std::uint64_t number_ = 0;
    std::uint64_t torn_segments_ = 0;
    bool skipping_ = false;  // within a line that is too long
};

}  // namespace callgate::audit
