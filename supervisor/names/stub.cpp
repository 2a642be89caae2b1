#include "supervisor/names/stub.hpp"

#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <boost/asio/buffer.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/write.hpp>
#include <cstring>
#include <deque>
#include <utility>

#include "base/test_switch.hpp"

namespace callgate::names {

namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using namespace std::chrono_literals;

constexpr std::size_t max_message = 65'535, max_outstanding = 32, max_expected = 4096;
constexpr auto idle = 30s, meeting_time = 1s;

}  // namespace

/// A connection over TCP: each message is led by its length. Queries are taken while earlier ones wait, and
/// answered in any order (RFC 7766).
class Stub::Connection : public std::enable_shared_from_this<Connection> {
public:
    Connection(tcp::socket socket, Asker asker, LookUps& look_ups, std::shared_ptr<std::size_t> count)
        : socket_(std::move(socket)),
          timer_(socket_.get_executor()),
          asker_(std::move(asker)),
          look_ups_(look_ups),
          count_(std::move(count)) {
        ++*count_;
    }
    Connection(const Connection&) = delete;
    Connection& operator=(const Connection&) = delete;
    ~Connection() { --*count_; }

    void read_length() {
        if (outstanding_ >= max_outstanding) {
            paused_ = true;
            return;
        }
        if (outstanding_ == 0) watch_idle();
        asio::async_read(socket_, asio::buffer(length_),
                         [self = shared_from_this()](const auto& error, auto) {
                             if (!error) self->read_message();
                         });
    }

private:
    void read_message() {
        const auto length = static_cast<std::size_t>(length_[0] << 8U | length_[1]);
        message_.resize(length);
        asio::async_read(socket_, asio::buffer(message_),
                         [self = shared_from_this()](const auto& error, auto) {
                             if (!error) self->take();
                         });
    }
    void take() {
        ++outstanding_;
        timer_.cancel();
        const std::vector<std::uint8_t> message = std::exchange(message_, {});
        // A message that nobody can answer ends the connection.
        if (look_ups_.take(message, asker_, max_message,
                           [self = shared_from_this()](const auto& reply) { self->reply(reply); }))
            read_length();
    }
    /// A query is outstanding until its answer is written: a client that reads nothing fills no memory here.
    void reply(const std::vector<std::uint8_t>& message) {
        std::vector<std::uint8_t> framed{static_cast<std::uint8_t>(message.size() >> 8U),
                                         static_cast<std::uint8_t>(message.size())};
        framed.insert(framed.end(), message.begin(), message.end());
        written_.push_back(std::move(framed));
        if (written_.size() == 1) write();
    }
    void write() {
        asio::async_write(socket_, asio::buffer(written_.front()),
                          [self = shared_from_this()](const auto& error, auto) {
                              if (error) return;
                              self->written_.pop_front();
                              --self->outstanding_;
                              if (!self->written_.empty()) self->write();
                              if (std::exchange(self->paused_, false)) self->read_length();
                              if (self->outstanding_ == 0) self->watch_idle();
                          });
    }
    void watch_idle() {
        timer_.expires_after(idle);
        timer_.async_wait([weak = weak_from_this()](const auto& error) {
            const auto self = weak.lock();
            if (error || !self) return;
            boost::system::error_code ignored;
            self->socket_.close(ignored);
        });
    }

    tcp::socket socket_;
    asio::steady_timer timer_;
    Asker asker_;
    LookUps& look_ups_;
    std::shared_ptr<std::size_t> count_;
    std::array<std::uint8_t, 2> length_{};
    std::vector<std::uint8_t> message_;
    std::deque<std::vector<std::uint8_t>> written_;
    std::size_t outstanding_ = 0;
    bool paused_ = false;
};

/// Port 53 of every address of the room. An answer comes from the address that was asked.
class Stub::Datagrams : public std::enable_shared_from_this<Datagrams> {
public:
    Datagrams(asio::io_context& loop, UniqueFd socket, Stub& owner)
        : owner_(owner), socket_(loop, socket.release()) {}

    void wait() {
        socket_.async_wait(asio::posix::descriptor_base::wait_read,
                           [weak = weak_from_this()](const auto& error) {
                               const auto self = weak.lock();
                               if (error || !self) return;
                               self->receive();
                               self->wait();
                           });
    }

private:
    struct Envelope {
        sockaddr_storage peer{};
        socklen_t peer_length = 0;
        alignas(cmsghdr) std::array<char, 128> control{};
        std::size_t control_length = 0;
    };

    void receive() {
        for (int count = 0; count < 64; ++count) {
            std::array<std::uint8_t, 4096> buffer{};
            Envelope from;
            iovec part{buffer.data(), buffer.size()};
            msghdr header{};
            header.msg_name = &from.peer;
            header.msg_namelen = sizeof from.peer;
            header.msg_iov = &part;
            header.msg_iovlen = 1;
            header.msg_control = from.control.data();
            header.msg_controllen = from.control.size();
            const ssize_t got = ::recvmsg(socket_.native_handle(), &header, MSG_DONTWAIT);
            if (got < 0) return;
            from.peer_length = header.msg_namelen;
            from.control_length = header.msg_controllen;
            answer_from_asked_address(header);
            take(Bytes(buffer.data(), static_cast<std::size_t>(got)), from);
        }
    }

    /// The control data that was received becomes that of the reply: the interface is left open.
    static void answer_from_asked_address(msghdr& header) {
        for (cmsghdr* one = CMSG_FIRSTHDR(&header); one != nullptr; one = CMSG_NXTHDR(&header, one)) {
            if (one->cmsg_level == IPPROTO_IP && one->cmsg_type == IP_PKTINFO) {
                in_pktinfo info{};
                std::memcpy(&info, CMSG_DATA(one), sizeof info);
                info.ipi_ifindex = 0;
                info.ipi_spec_dst = info.ipi_addr;
                std::memcpy(CMSG_DATA(one), &info, sizeof info);
            }
        }
    }

    void take(Bytes message, const Envelope& from) {
        const Asker asker = owner_.askers.with(owner_.room_.owner(from.peer));
        static_cast<void>(owner_.look_ups_.take(message, asker, max_answer,
                                                [self = weak_from_this(), from](const auto& reply) {
                                                    if (const auto open = self.lock())
                                                        open->send(reply, from);
                                                }));
    }

    void send(const std::vector<std::uint8_t>& reply, Envelope to) {
        iovec part{const_cast<std::uint8_t*>(reply.data()), reply.size()};
        msghdr header{};
        header.msg_name = &to.peer;
        header.msg_namelen = to.peer_length;
        header.msg_iov = &part;
        header.msg_iovlen = 1;
        header.msg_control = to.control.data();
        header.msg_controllen = to.control_length;
        static_cast<void>(::sendmsg(socket_.native_handle(), &header, MSG_DONTWAIT | MSG_NOSIGNAL));
    }

    Stub& owner_;
    asio::posix::stream_descriptor socket_;
};

Stub::Stub(asio::io_context& loop, LookUps& look_ups, const AskersJudgedAlike& alike)
    : askers(alike), loop_(loop), look_ups_(look_ups), timer_(loop) {}

Stub::~Stub() = default;

std::uint16_t Stub::port(int family) {
    const std::lock_guard guard(lock_);
    Listener& listener = family == AF_INET6 ? six_ : four_;
    if (!listener.tried) {
        listener.tried = true;
        listener.port = open(listener, family);
    }
    return listener.port;
}

std::uint16_t Stub::open(Listener& listener, int family) {
    boost::system::error_code error;
    const bool six = family == AF_INET6;
    auto acceptor = std::make_unique<tcp::acceptor>(loop_);
    if (acceptor->open(six ? tcp::v6() : tcp::v4(), error); error) return 0;
    const asio::ip::address address = six ? asio::ip::address(asio::ip::address_v6::loopback())
                                          : asio::ip::address(asio::ip::address_v4::loopback());
    if (acceptor->bind({address, 0}, error); error) return 0;
    if (acceptor->listen(asio::socket_base::max_listen_connections, error); error) return 0;
    const std::uint16_t port = acceptor->local_endpoint(error).port();
    listener.acceptor = std::move(acceptor);
    asio::post(loop_, [this, &listener, alive = std::weak_ptr<int>(alive_)] {
        if (!alive.expired()) accept(listener);
    });
    return port;
}

void Stub::accept(Listener& listener) {
    listener.acceptor->async_accept([this, &listener](const auto& error, tcp::socket socket) {
        if (error == asio::error::operation_aborted) return;
        if (!error) admit(std::move(socket));
        accept(listener);
    });
}

/// The connect that made it may not have said so yet: then it waits a moment.
void Stub::admit(tcp::socket socket) {
    boost::system::error_code error;
    const auto remote = socket.remote_endpoint(error);
    if (error) return;
    if (!check_enabled("known-peer")) return start(std::move(socket), {});
    sockaddr_storage address{};
    std::memcpy(&address, remote.data(), remote.size());
    const Place from = place_of(address);
    if (auto asker = expected(from)) return start(std::move(socket), std::move(*asker));
    if (unmet_.size() >= max_unmet) return;  // it is closed
    unmet_.emplace(from, Unmet{std::move(socket), std::chrono::steady_clock::now() + meeting_time});
    if (unmet_.size() == 1) time_unmet();
}

void Stub::start(tcp::socket socket, Asker asker) {
    if (*connections_ >= max_connections) return;
    boost::system::error_code ignored;
    socket.set_option(tcp::no_delay(true), ignored);
    std::make_shared<Connection>(std::move(socket), std::move(asker), look_ups_, connections_)->read_length();
}

std::optional<Asker> Stub::expected(const Place& from) {
    const std::lock_guard guard(lock_);
    auto known = expected_.extract(from);
    return known.empty() ? std::nullopt : std::optional(askers.with(std::move(known.mapped())));
}

void Stub::expect(const sockaddr_storage& local, Asker asker) {
    asker.judges = nullptr;
    {
        const std::lock_guard guard(lock_);
        if (expected_.size() >= max_expected) expected_.clear();
        expected_[place_of(local)] = std::move(asker);
    }
    asio::post(loop_, [this, alive = std::weak_ptr<int>(alive_)] {
        if (!alive.expired()) meet_unmet();
    });
}

void Stub::meet_unmet() {
    for (auto next = unmet_.begin(); next != unmet_.end();) {
        const auto one = next++;
        auto asker = expected(one->first);
        if (!asker) continue;
        tcp::socket socket = std::move(one->second.socket);
        unmet_.erase(one);
        start(std::move(socket), std::move(*asker));
    }
}

void Stub::time_unmet() {
    timer_.expires_after(meeting_time);
    timer_.async_wait([this](const auto& error) {
        if (error) return;
        const auto now = std::chrono::steady_clock::now();
        std::erase_if(unmet_, [now](const auto& one) { return one.second.until <= now; });
        if (!unmet_.empty()) time_unmet();
    });
}

Result<UniqueFd> Stub::udp_socket(int family, int type, const Asker& asker) {
    auto made = room_.socket(family, type, asker);
    if (made) std::call_once(served_, [this] { serve(room_.take_servers()); });
    return made;
}

void Stub::serve(std::vector<UniqueFd> sockets) {
    auto shared = std::make_shared<std::vector<UniqueFd>>(std::move(sockets));
    asio::post(loop_, [this, shared, alive = std::weak_ptr<int>(alive_)] {
        if (alive.expired()) return;
        for (UniqueFd& socket : *shared) {
            datagrams_.push_back(std::make_shared<Datagrams>(loop_, std::move(socket), *this));
            datagrams_.back()->wait();
        }
    });
}

}  // namespace callgate::names
