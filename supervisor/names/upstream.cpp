#include "supervisor/names/upstream.hpp"

// Newer versions of c-ares offer another query, which that of Debian 12 lacks.
#define CARES_NO_DEPRECATED
#include <ares.h>
#include <arpa/nameser.h>
#include <sys/time.h>

#include <algorithm>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <map>
#include <utility>

#include "supervisor/names/hosts.hpp"

namespace callgate::names {

namespace {

namespace asio = boost::asio;

}  // namespace

/// A state of c-ares, with the servers that it read. It is replaced when they change, and lives on until its
/// last query has ended.
class Upstream::Channel : public std::enable_shared_from_this<Channel> {
public:
    explicit Channel(asio::io_context& loop) : loop_(loop), timer_(loop) {}
    Channel(const Channel&) = delete;
    Channel& operator=(const Channel&) = delete;
    ~Channel() { close(); }

    /// Ends every query; nothing is called any more.
    void close() {
        ending_ = true;
        for (auto& [number, watched] : sockets_) watched->socket.release();
        sockets_.clear();
        if (ares_channel const open = std::exchange(channel_, nullptr); open != nullptr) ::ares_destroy(open);
    }

    bool open(const Servers& servers) {
        ares_options options{};
        options.sock_state_cb = &Channel::on_socket_state;
        options.sock_state_cb_data = this;
        options.timeout = static_cast<int>(servers.first_try.count());
        options.tries = 2;
        std::string file = servers.file;  // c-ares copies it
        options.resolvconf_path = file.data();
        options.udp_port = options.tcp_port = servers.port;
        // No flags are given: newer c-ares would add EDNS with a cookie to each query.
        constexpr int given = ARES_OPT_FLAGS | ARES_OPT_SOCK_STATE_CB | ARES_OPT_TIMEOUTMS | ARES_OPT_TRIES |
                              ARES_OPT_RESOLVCONF | ARES_OPT_UDP_PORT | ARES_OPT_TCP_PORT;
        return ::ares_init_options(&channel_, &options, given) == ARES_SUCCESS;
    }

    void ask(const std::string& name, int type, Done done) {
        if (channel_ == nullptr) return done({});
        ::ares_query(channel_, name.c_str(), ns_c_in, type, &Channel::on_answer,
                     new Asked{shared_from_this(), std::move(done)});
        set_timer();
    }

private:
    struct Asked {
        std::shared_ptr<Channel> channel;
        Done done;
    };
    struct Watched {
        explicit Watched(asio::io_context& loop, int number) : socket(loop, number) {}
        asio::posix::stream_descriptor socket;
        bool reads = false, writes = false;     // wanted
        bool reading = false, writing = false;  // under way
    };

    static void on_answer(void* data, int /*status*/, int /*timeouts*/, unsigned char* message, int size) {
        const std::unique_ptr<Asked> asked(static_cast<Asked*>(data));
        if (asked->channel->ending_) return;
        asked->done(message == nullptr || size < 0 ? Bytes()
                                                   : Bytes(message, static_cast<std::size_t>(size)));
        // A channel that was replaced goes with its last query, but not inside of its own call.
        asio::post(asked->channel->loop_, [last = asked->channel] {});
    }

    static void on_socket_state(void* data, ares_socket_t number, int reads, int writes) {
        static_cast<Channel*>(data)->watch(number, reads != 0, writes != 0);
    }

    /// c-ares owns the sockets: they are released here before it closes them.
    void watch(int number, bool reads, bool writes) {
        if (ending_) return;
        if (!reads && !writes) {
            if (const auto found = sockets_.find(number); found != sockets_.end()) {
                found->second->socket.release();
                sockets_.erase(found);
            }
            return;
        }
        auto& watched = sockets_[number];
        if (!watched) watched = std::make_shared<Watched>(loop_, number);
        watched->reads = reads;
        watched->writes = writes;
        wait(watched);
    }

    void wait(const std::shared_ptr<Watched>& one) {
        const auto begin = [&](bool wanted, bool& under_way, asio::posix::descriptor_base::wait_type what) {
            if (!wanted || under_way) return;
            under_way = true;
            one->socket.async_wait(what, [self = weak_from_this(), one, what](const auto& error) {
                const bool read = what == asio::posix::descriptor_base::wait_read;
                (read ? one->reading : one->writing) = false;
                const auto channel = self.lock();
                if (!error && channel) channel->ready(one, read);
            });
        };
        begin(one->reads, one->reading, asio::posix::descriptor_base::wait_read);
        begin(one->writes, one->writing, asio::posix::descriptor_base::wait_write);
    }

    void ready(const std::shared_ptr<Watched>& one, bool read) {
        const int number = one->socket.native_handle();
        const auto found = sockets_.find(number);
        if (found == sockets_.end() || found->second != one) return;
        ::ares_process_fd(channel_, read ? number : ARES_SOCKET_BAD, read ? ARES_SOCKET_BAD : number);
        if (const auto still = sockets_.find(number); still != sockets_.end() && still->second == one)
            wait(one);
        set_timer();
    }

    void set_timer() {
        timeval longest{1, 0}, left{};
        const timeval* const next = ::ares_timeout(channel_, &longest, &left);
        if (sockets_.empty()) {
            timer_.cancel();
            return;
        }
        timer_.expires_after(std::chrono::seconds(next->tv_sec) + std::chrono::microseconds(next->tv_usec) +
                             std::chrono::milliseconds(1));
        timer_.async_wait([self = weak_from_this()](const auto& error) {
            const auto channel = self.lock();
            if (error || !channel || channel->channel_ == nullptr) return;
            ::ares_process_fd(channel->channel_, ARES_SOCKET_BAD, ARES_SOCKET_BAD);
            channel->set_timer();
        });
    }

    asio::io_context& loop_;
    asio::steady_timer timer_;
    ares_channel channel_ = nullptr;
    std::map<int, std::shared_ptr<Watched>> sockets_;
    bool ending_ = false;
};

Upstream::Upstream(asio::io_context& loop) : Upstream(loop, Servers()) {}

Upstream::Upstream(asio::io_context& loop, Servers servers) : loop_(loop), servers_(std::move(servers)) {
    ::ares_library_init(ARES_LIB_INIT_ALL);
}

Upstream::~Upstream() {
    if (channel_) channel_->close();
}

void Upstream::refresh() {
    std::string mark = mark_of(servers_.file.c_str());
    if (channel_ && mark == read_) return;
    auto fresh = std::make_shared<Channel>(loop_);
    if (!fresh->open(servers_)) fresh.reset();
    channel_ = std::move(fresh);
    read_ = std::move(mark);
}

void Upstream::ask(const std::string& name, std::uint16_t type, Done done) {
    refresh();
    if (!channel_) return done({});
    // The answer may come while a handler of this channel runs.
    channel_->ask(name, type, std::move(done));
}

}  // namespace callgate::names
