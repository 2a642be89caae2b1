#include "supervisor/jobs/stream.hpp"

#include <unistd.h>

#include <algorithm>
#include <boost/asio/buffer.hpp>
#include <boost/asio/post.hpp>
#include <cerrno>
#include <utility>

namespace callgate::jobs {

namespace {
/// A pipe holds at most 1 MiB, unless root has raised that (pipe-max-size, pipe(7)). Bytes that a process
/// writes after the run need not be waited for.
constexpr int max_reads = 64;
}  // namespace

void Stream::start(std::function<void()> closed, std::function<bool(std::string_view)> piece, bool keeps) {
    closed_ = std::move(closed);
    piece_ = std::move(piece);
    keeps_ = keeps;
    read();
}

void Stream::read() {
    descriptor_.async_read_some(boost::asio::buffer(buffer_),
                                [this](const boost::system::error_code& error, std::size_t count) {
                                    keep(count);
                                    if (finishing_) return drain();
                                    if (error) return close();
                                    if (!paused_) read();
                                });
}

void Stream::resume() {
    if (std::exchange(paused_, false) && !finishing_) read();
}

/// A read that is under way may hold bytes already, so it ends first; then the rest is read.
void Stream::finish() {
    if (!descriptor_.is_open() || std::exchange(finishing_, true)) return;
    descriptor_.cancel();
    if (std::exchange(paused_, false))  // no read is under way
        boost::asio::post(descriptor_.get_executor(), [this] { drain(); });
}

void Stream::drain() {
    for (int round = 0; round < max_reads; ++round) {
        const ssize_t got = ::read(descriptor_.native_handle(), buffer_.data(), buffer_.size());
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) break;
        keep(static_cast<std::size_t>(got));
    }
    close();
}

void Stream::keep(std::size_t count) {
    if (!keeps_) {
        if (count > 0) paused_ = !piece_({buffer_.data(), count});
        return;
    }
    captured_.total += count;
    const std::uint64_t room = max_ - std::min<std::uint64_t>(max_, captured_.bytes.size());
    const std::string_view kept(buffer_.data(), std::min<std::uint64_t>(room, count));
    captured_.bytes += kept;
    if (piece_ && !kept.empty()) paused_ = !piece_(kept);
}

void Stream::close() {
    descriptor_.close();
    std::exchange(closed_, nullptr)();
}

}  // namespace callgate::jobs
