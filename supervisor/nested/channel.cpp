#include "supervisor/nested/channel.hpp"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>

#include <array>
#include <boost/asio/buffer.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/write.hpp>
#include <cerrno>
#include <nlohmann/json.hpp>
#include <system_error>
#include <thread>
#include <utility>

#include "base/json_read.hpp"
#include "base/json_writer.hpp"
#include "base/test_switch.hpp"
#include "supervisor/kernel/target.hpp"

namespace callgate::nested {

namespace asio = boost::asio;
using nlohmann::json;

std::string error_line(std::string_view error) {
    return json_text([error](JsonWriter& line) {
        line.begin_object()
            .member("callgate", protocol_version)
            .member("ok", false)
            .member("error", error)
            .end_object();
    });
}

namespace {

void release(std::string& text) {
    text.clear();
    text.shrink_to_fit();
}

}  // namespace

/// On the channel's thread, until its last handler has ended.
class Channel::Connection : public std::enable_shared_from_this<Connection> {
public:
    Connection(Channel& channel, asio::io_context& loop, UniqueFd fd, Peer peer)
        : channel_(channel), stream_(loop, fd.release()), peer_(std::move(peer)) {}
    Connection(const Connection&) = delete;
    Connection& operator=(const Connection&) = delete;
    ~Connection() {
        channel_.connections_.fetch_sub(1);
        channel_.held_.fetch_sub(held_);
        if (peer_.ended) peer_.ended();
    }

    /// Before the first `read`.
    void begin() {
        peer_.hang_up = [executor = stream_.get_executor(), weak = weak_from_this()] {
            asio::post(executor, [weak] {
                boost::system::error_code ignored;
                if (const auto self = weak.lock()) self->stream_.close(ignored);
            });
        };
        read();
    }

private:
    void read() {
        stream_.async_read_some(asio::buffer(piece_),
                                [self = shared_from_this()](const auto& error, auto got) {
                                    if (error) return;  // the last reference goes
                                    self->input_.append(self->piece_.data(), got);
                                    if (self->holds_too_much()) return;
                                    self->next();
                                });
    }

    /// Counts what this connection keeps. True: all of them keep too much, so this one ends.
    bool holds_too_much() {
        const std::size_t now = input_.capacity() + output_.capacity();
        const std::size_t all = channel_.held_.fetch_add(now - held_) + now - held_;
        held_ = now;
        return all > max_held && check_enabled("channel-held");
    }

    /// Handles the next whole line, or reads on.
    void next() {
        const std::size_t end = input_.find('\n', looked_);
        looked_ = input_.size();
        if (end == std::string::npos) {
            if (input_.size() < max_line) return read();
            release(input_);
            return write(error_line("the line is too long"), false);
        }
        const std::string line = input_.substr(0, end);
        input_.erase(0, end + 1);
        input_.shrink_to_fit();
        looked_ = 0;
        handle(line);
    }

    void handle(const std::string& line) {
        const json request = json_read::parse_object(line);
        if (request.is_null()) return write(error_line("expected one JSON object in each line"));
        if (json_read::number(json_read::member(request, "callgate")) != protocol_version)
            return write(error_line("this callgate speaks version 1 of the protocol, and no other"));
        const auto handler = channel_.handlers_.find(json_read::text(json_read::member(request, "do")));
        if (handler == channel_.handlers_.end()) return write(error_line("this request is not known"));
        try {
            handler->second(peer_, request, [self = shared_from_this()](std::string answer) {
                asio::post(self->stream_.get_executor(),
                           [self, text = std::move(answer)]() mutable { self->write(std::move(text)); });
            });
        } catch (const std::exception& failure) {
            write(error_line(failure.what()));
        }
    }

    /// A peer that does not read gets no further answer.
    void write(std::string line, bool go_on = true) {
        output_ = std::move(line) + '\n';
        if (holds_too_much()) return;
        asio::async_write(stream_, asio::buffer(output_),
                          [self = shared_from_this(), go_on](const auto& error, auto) {
                              release(self->output_);
                              static_cast<void>(self->holds_too_much());
                              if (!error && go_on) self->next();
                          });
    }

    Channel& channel_;
    asio::posix::stream_descriptor stream_;
    Peer peer_;
    std::array<char, 16384> piece_{};
    std::string input_, output_;
    std::size_t looked_ = 0;  // no newline stands before
    std::size_t held_ = 0;    // of channel_.held_
};

Channel::Channel(const std::string& run, const std::string& denials)
    : loop_(std::make_shared<asio::io_context>(1)) {
    on("hello", [run, denials](Peer& peer, const json&, const Answer& answer) {
        answer(json_text([&](JsonWriter& line) {
            line.begin_object()
                .member("callgate", protocol_version)
                .member("ok", true)
                .member("run", run)
                .member("denials", denials)
                .text_or_null("nested", peer.needs->nested)
                .end_object();
        }));
    });
    on("report", [](Peer& peer, const json&, const Answer& answer) {
        if (!peer.report) return answer(error_line("this connection has no nested run"));
        answer(json_text([&](JsonWriter& line) {
            line.begin_object().member("callgate", protocol_version).member("ok", true);
            line.key("report").raw(peer.report()).end_object();
        }));
    });
}

/// The thread stays where it waits until the process ends, as those of the workers do.
Channel::~Channel() { loop_->stop(); }

/// The thread that starts this one is a worker. So it has no capabilities, and sits in the base domain.
void Channel::serve() {
    std::thread([loop = loop_] {
        ::prctl(PR_SET_NAME, "callgate-nested");
        sigset_t all;
        ::sigfillset(&all);
        ::pthread_sigmask(SIG_SETMASK, &all, nullptr);
        const auto stays = asio::make_work_guard(*loop);
        loop->run();
    }).detach();
}

void Channel::connect(calls::NetworkCall& context, int number, std::string_view name) {
    if (name == calls::reserved_name) return open(context, number);
    std::string_view rest = name.substr(calls::reserved_name.size() + 1);
    const std::size_t slash = rest.find('/');
    const auto named = named_.find(rest.substr(0, slash));
    if (named == named_.end() || slash == std::string_view::npos) return context.fail(ECONNREFUSED);
    named->second(context, rest.substr(slash + 1));
}

void Channel::open(calls::NetworkCall& context, int number) {
    if (connections_.fetch_add(1) >= max_connections) {
        connections_.fetch_sub(1);
        return context.fail(EAGAIN);
    }
    int ends[2];
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
        connections_.fetch_sub(1);
        return context.fail(errno);
    }
    UniqueFd own(ends[0]), given(ends[1]);
    const auto status = kernel::status(context.thread());
    Peer peer{.process = status ? status->process : context.thread(), .needs = context.needs.hold()};
    try {
        std::call_once(started_, [this] { serve(); });
    } catch (const std::system_error&) {
        connections_.fetch_sub(1);
        return context.fail(EAGAIN);
    }
    const auto connection = std::make_shared<Connection>(*this, *loop_, std::move(own), std::move(peer));
    if (!context.call.put_in_place(std::move(given), number)) return;
    asio::post(*loop_, [connection] { connection->begin(); });
}

}  // namespace callgate::nested
