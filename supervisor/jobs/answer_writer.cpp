#include "supervisor/jobs/answer_writer.hpp"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <system_error>
#include <utility>

#include "base/write_all.hpp"

namespace callgate::jobs {

namespace {
/// A larger answer takes time to make, too.
constexpr std::size_t small_answer = 65536;
}  // namespace

AnswerWriter::AnswerWriter(int descriptor, std::function<void()> written, std::function<void()> gone)
    : descriptor_(descriptor),
      wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      on_written_(std::move(written)),
      on_gone_(std::move(gone)) {
    if (!wake_) throw std::system_error(errno, std::generic_category(), "eventfd");
}

void AnswerWriter::start() {
    std::thread([this] { write_all_answers(); }).detach();
}

std::size_t AnswerWriter::backlog() {
    const std::lock_guard lock(mutex_);
    return backlog_;
}

bool AnswerWriter::is_idle() {
    const std::lock_guard lock(mutex_);
    return waiting_.empty() && !writing_ && !lost_;
}

/// The kernel writes nothing if it cannot tell whether there is room (a file, a terminal).
std::string AnswerWriter::write_at_once(std::string text) const {
    const iovec part{text.data(), text.size()};
    const ssize_t done = ::pwritev2(descriptor_, &part, 1, -1, RWF_NOWAIT);
    return done > 0 ? text.substr(static_cast<std::size_t>(done)) : text;
}

void AnswerWriter::add(std::function<std::string()> text, std::size_t size) {
    if (size <= small_answer && is_idle()) {
        std::string rest = write_at_once(text());
        if (rest.empty()) return;
        text = [rest = std::move(rest)] { return rest; };
    }
    {
        const std::lock_guard lock(mutex_);
        waiting_.push_back({std::move(text), size});
        backlog_ += size;
    }
    const std::uint64_t one = 1;
    static_cast<void>(::write(wake_.get(), &one, sizeof one) == 0);  // EAGAIN: the thread is awake anyway
}

bool AnswerWriter::finish(std::chrono::milliseconds patience) {
    std::unique_lock lock(mutex_);
    written_.wait_for(lock, patience, [this] { return lost_ || (waiting_.empty() && !writing_); });
    return !lost_ && waiting_.empty() && !writing_;
}

void AnswerWriter::write_all_answers() {
    while (await()) {
        Waiting next;
        {
            const std::lock_guard lock(mutex_);
            if (waiting_.empty()) continue;
            next = std::move(waiting_.front());
            waiting_.pop_front();
            writing_ = true;
        }
        const bool done = write_all(descriptor_, next.text());
        next.text = nullptr;
        {
            const std::lock_guard lock(mutex_);
            writing_ = false;
            backlog_ -= next.size;
        }
        if (!done) break;
        written_.notify_all();
        on_written_();
    }
    reader_gone();
}

bool AnswerWriter::await() {
    for (;;) {
        {
            const std::lock_guard lock(mutex_);
            if (!waiting_.empty()) return true;
        }
        pollfd both[2] = {{wake_.get(), POLLIN, 0}, {descriptor_, 0, 0}};
        if (::poll(both, 2, -1) < 0 && errno != EINTR) return false;
        if ((both[1].revents & (POLLERR | POLLHUP | POLLNVAL)) != 0) return false;
        std::uint64_t count = 0;
        static_cast<void>(::read(wake_.get(), &count, sizeof count) == 0);
    }
}

void AnswerWriter::reader_gone() {
    {
        const std::lock_guard lock(mutex_);
        lost_ = true;
    }
    written_.notify_all();
    on_gone_();
}

}  // namespace callgate::jobs
