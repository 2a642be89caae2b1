#include "supervisor/jobs/request_reader.hpp"

#include <sys/epoll.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <limits>
#include <utility>

#include "base/unique_fd.hpp"

namespace callgate::jobs {

namespace {
constexpr std::size_t max_waiting = 1000, max_waiting_bytes = std::size_t{64} << 20U;
constexpr std::size_t piece = 65536, unbounded = std::numeric_limits<std::size_t>::max();

ssize_t read_piece(int descriptor, std::array<char, piece>& bytes) {
    ssize_t got = -1;
    while ((got = ::read(descriptor, bytes.data(), bytes.size())) < 0 && errno == EINTR) {
    }
    return got;
}
}  // namespace

RequestReader::RequestReader(boost::asio::io_context& loop, int descriptor,
                             std::function<void(Request, std::size_t)> arrived, std::function<void()> ended,
                             bool bounded)
    : descriptor_(descriptor),
      ready_(loop),
      arrived_(std::move(arrived)),
      ended_(std::move(ended)),
      max_waiting_(bounded ? max_waiting : unbounded),
      max_waiting_bytes_(bounded ? max_waiting_bytes : unbounded) {}

void RequestReader::start() {
    UniqueFd readiness(::epoll_create1(EPOLL_CLOEXEC));
    epoll_event readable{};
    readable.events = EPOLLIN;
    if (!readiness || ::epoll_ctl(readiness.get(), EPOLL_CTL_ADD, descriptor_, &readable) != 0)
        return read_by_thread();
    ready_.assign(readiness.release());
    watch();
}

void RequestReader::watch() {
    ready_.async_wait(boost::asio::posix::stream_descriptor::wait_read,
                      [this](const boost::system::error_code& error) {
                          if (error) return read_by_thread();
                          read_ready();
                      });
}

void RequestReader::read_ready() {
    std::array<char, piece> bytes;
    iovec part{bytes.data(), bytes.size()};
    const ssize_t got = ::preadv2(descriptor_, &part, 1, -1, RWF_NOWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return watch();
    if (got < 0) return read_by_thread();  // which finds the same error, if it is one
    if (got == 0) return end_input();
    const std::string_view arrived(bytes.data(), static_cast<std::size_t>(got));
    if (!are_small(arrived)) return read_by_thread(arrived);
    receive(arrived);
    watch();
}

bool RequestReader::are_small(std::string_view bytes) {
    const auto lines = static_cast<std::size_t>(std::ranges::count(bytes, '\n'));
    const std::lock_guard lock(mutex_);
    return line_.size() + bytes.size() <= piece && waiting_ + lines < max_waiting_ &&
           waiting_bytes_ + line_.size() + bytes.size() < max_waiting_bytes_;
}

void RequestReader::read_by_thread(std::string_view bytes) {
    ready_.close();
    std::thread([this, bytes = std::string(bytes)] {
        receive(bytes);
        read_all();
    }).detach();
}

void RequestReader::accepted(std::size_t size) {
    const std::lock_guard lock(mutex_);
    --waiting_;
    waiting_bytes_ -= size;
    room_.notify_one();
}

void RequestReader::read_all() {
    std::array<char, piece> bytes;
    ssize_t got = 0;
    while ((got = read_piece(descriptor_, bytes)) > 0) receive({bytes.data(), static_cast<std::size_t>(got)});
    end_input();
}

void RequestReader::end_input() {
    if (!line_.empty()) hand_over(std::exchange(line_, {}));
    ended_();
}

void RequestReader::receive(std::string_view bytes) {
    while (!bytes.empty()) {
        const std::size_t end = bytes.find('\n');
        if (!skipping_) line_ += bytes.substr(0, end);
        if (line_.size() > max_job) {
            // The parser refuses it for one byte too many.
            hand_over(std::string_view(line_).substr(0, max_job + 1));
            line_ = {};
            skipping_ = true;
        }
        if (end == std::string_view::npos) return;
        if (!std::exchange(skipping_, false)) hand_over(std::exchange(line_, {}));
        bytes.remove_prefix(end + 1);
    }
}

void RequestReader::hand_over(std::string_view line) {
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) return;
    {
        std::unique_lock lock(mutex_);
        room_.wait(lock, [this] { return waiting_ < max_waiting_ && waiting_bytes_ < max_waiting_bytes_; });
        ++waiting_;
        waiting_bytes_ += line.size();
    }
    arrived_(parse_request(line, Form::served), line.size());
}

}  // namespace callgate::jobs
