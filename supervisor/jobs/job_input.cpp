#include "supervisor/jobs/job_input.hpp"

#include <boost/asio/buffer.hpp>
#include <boost/asio/write.hpp>
#include <utility>

#include "base/test_switch.hpp"

namespace callgate::jobs {

namespace {
constexpr const char* unread = "the job has ended, or closed its stdin, before it read this";
}  // namespace

void JobInput::add(std::string bytes, bool last, Done done) {
    std::string why = over_;
    const bool bounded = check_enabled("input-bounded");
    if (why.empty() && bounded && !pieces_.empty() &&
        waiting_ + bytes.size() + sizeof(Piece) > max_waiting_input)
        why = "the job has not read 16 MiB that it was sent before; send this again later";
    if (!why.empty()) {
        if (done) done(why);
        return;
    }
    if (last) over_ = "the job's input has ended";
    waiting_ += bytes.size() + sizeof(Piece);
    pieces_.push_back({std::move(bytes), last, std::move(done)});
    if (pieces_.size() == 1) write_next();
}

void JobInput::write_next() {
    boost::asio::async_write(
        descriptor_, boost::asio::buffer(pieces_.front().bytes),
        [self = shared_from_this()](const boost::system::error_code& error, std::size_t) {
            if (!error) return self->written();
            self->fail(unread);
        });
}

void JobInput::written() {
    const Piece piece = std::move(pieces_.front());
    pieces_.pop_front();
    waiting_ -= piece.bytes.size() + sizeof piece;
    if (piece.done) piece.done("");
    if (!descriptor_.is_open()) return fail(unread);
    if (piece.last) descriptor_.close();
    if (!pieces_.empty()) write_next();
}

void JobInput::fail(const std::string& why) {
    over_ = why;
    boost::system::error_code ignored;
    descriptor_.close(ignored);
    waiting_ = 0;
    for (const Piece& piece : std::exchange(pieces_, {}))
        if (piece.done) piece.done(why);
}

void JobInput::close() {
    over_ = "the job has ended";
    boost::system::error_code ignored;
    descriptor_.close(ignored);
}

}  // namespace callgate::jobs
