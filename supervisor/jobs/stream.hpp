// Reads a pipe that others write to: keeps bytes up to a bound and counts the rest.
//
// An attacker controls every byte, how many there are, and whether the other end is ever closed.
#pragma once

#include <array>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "base/unique_fd.hpp"

namespace callgate::jobs {

struct Captured {
    std::string bytes;
    std::uint64_t total = 0;  // bytes that were written, kept or not
    [[nodiscard]] bool cut() const { return total > bytes.size(); }
};

/// Used by the loop's thread. Must outlive the call of `closed`, which comes exactly once after `start`.
class Stream {
public:
    Stream(boost::asio::io_context& loop, UniqueFd end, std::uint64_t max_kept)
        : descriptor_(loop, end.release()), max_(max_kept) {}
    /// `piece` gets the bytes that are kept, as they come; null: nobody does. Without `keeps` it gets all
    /// bytes, and none is kept. If it returns false, reading stops until `resume`.
    void start(std::function<void()> closed, std::function<bool(std::string_view)> piece = nullptr,
               bool keeps = true);
    void resume();
    /// Call this when no writer should be left. Takes the rest of the pipe and closes it, although others may
    /// hold its other end.
    void finish();
    [[nodiscard]] Captured take() { return std::move(captured_); }

private:
    void read();
    void drain();
    void keep(std::size_t count);
    void close();

    boost::asio::posix::stream_descriptor descriptor_;
    std::uint64_t max_;
    Captured captured_;
    std::function<void()> closed_;
    std::function<bool(std::string_view)> piece_;
    bool finishing_ = false, keeps_ = true, paused_ = false;
    std::array<char, 65536> buffer_;
};

}  // namespace callgate::jobs
