#include "relay/front.hpp"

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/process/open_files.hpp"
#include "base/unique_fd.hpp"
#include "relay/client_hello.hpp"
#include "relay/confine.hpp"
#include "relay/connection.hpp"
#include "relay/protocol.hpp"

namespace callgate::relay {

namespace {

using Clock = std::chrono::steady_clock;

constexpr auto longest_unnamed = std::chrono::seconds(1);  // an accepted connection without a word
constexpr auto longest_awaited = std::chrono::seconds(5);  // a word without its connection
constexpr std::uint64_t control_event = 0, listener_v4_event = 1, listener_v6_event = 2,
                        first_connection_event = 3;

/// Items that wait for their counterpart from the same source, oldest first.
template <class Item>
class Unmatched {
public:
    void add(const Source& source, Item item, Clock::time_point until) {
        items_.push_back({source, std::move(item), until});
    }
    [[nodiscard]] bool take(const Source& source, Item& item) {
        const auto found = std::find_if(items_.begin(), items_.end(), [&source](const Waiting& waiting) {
            return waiting.source == source;
        });
        if (found == items_.end()) return false;
        item = std::move(found->item);
        items_.erase(found);
        return true;
    }
    /// Removes and returns one whose time is over.
    [[nodiscard]] bool take_expired(Clock::time_point now, Item& item) {
        if (items_.empty() || items_.front().until > now) return false;
        item = std::move(items_.front().item);
        items_.pop_front();
        return true;
    }
    [[nodiscard]] Clock::time_point next_expiry() const {
        return items_.empty() ? Clock::time_point::max() : items_.front().until;
    }

private:
    struct Waiting {
        Source source;
        Item item;
        Clock::time_point until;
    };
    std::deque<Waiting> items_;  // few: a word comes at once
};

struct Word {
    std::uint64_t id = 0;
    std::vector<std::string> names;
    UniqueFd upstream;
};

Source source_of(const sockaddr_storage& address) {
    Source source;
    source.family = address.ss_family;
    if (address.ss_family == AF_INET) {
        const auto& v4 = reinterpret_cast<const sockaddr_in&>(address);
        source.port = v4.sin_port;
        std::memcpy(source.address.data(), &v4.sin_addr, sizeof v4.sin_addr);
    } else if (address.ss_family == AF_INET6) {
        const auto& v6 = reinterpret_cast<const sockaddr_in6&>(address);
        source.port = v6.sin6_port;
        std::memcpy(source.address.data(), &v6.sin6_addr, sizeof v6.sin6_addr);
    }
    return source;
}

class Front {
public:
    Front() : buffer_(256 * 1024) {}

    /// Makes what needs calls that the filter does not allow. Throws nothing; false with errno.
    [[nodiscard]] bool prepare() {
        epoll_.reset(::epoll_create1(EPOLL_CLOEXEC));
        spare_.reset(::fcntl(control_descriptor, F_DUPFD_CLOEXEC, first_free_descriptor));
        return epoll_ && spare_ && watch(control_descriptor, control_event, EPOLLIN) &&
               watch(listener_v4_descriptor, listener_v4_event, EPOLLIN) &&
               // A machine without IPv6 has no second listener.
               (::fcntl(listener_v6_descriptor, F_GETFD) < 0 ||
                watch(listener_v6_descriptor, listener_v6_event, EPOLLIN));
    }

    int serve() {
        for (;;) {
            epoll_event events[64];
            const int count = ::epoll_wait(epoll_.get(), events, std::size(events), patience());
            if (count < 0 && errno != EINTR) return 125;
            for (int index = 0; index < count; ++index) {
                const std::uint64_t event = events[index].data.u64;
                if (event == control_event && !take_words()) return 0;
                if (event == listener_v4_event) accept_all(listener_v4_descriptor);
                if (event == listener_v6_event) accept_all(listener_v6_descriptor);
                if (event >= first_connection_event) advance(event);
            }
            for (std::deque<std::uint64_t> ready = std::exchange(ready_, {});
                 const std::uint64_t event : ready)
                advance(event);
            drop_expired();
        }
    }

private:
    static constexpr int first_free_descriptor = 10;

    [[nodiscard]] bool watch(int descriptor, std::uint64_t event, std::uint32_t kinds) {
        epoll_event wanted{};
        wanted.events = kinds;
        wanted.data.u64 = event;
        return ::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, descriptor, &wanted) == 0;
    }

    /// How long epoll_wait(2) may wait, in milliseconds.
    [[nodiscard]] int patience() const {
        if (!ready_.empty()) return 0;
        const Clock::time_point next = std::min(unnamed_.next_expiry(), awaited_.next_expiry());
        if (next == Clock::time_point::max()) return -1;
        const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(next - Clock::now()).count();
        return static_cast<int>(std::clamp<long>(left + 1, 0, 1000));
    }

    /// Reads the supervisor's words. Returns false once it has closed its end.
    bool take_words() {
        std::vector<char> text(sizeof(Announced) + longest_names);
        for (;;) {
            iovec part{text.data(), text.size()};
            alignas(cmsghdr) char room[CMSG_SPACE(sizeof(int))];
            msghdr message{};
            message.msg_iov = &part;
            message.msg_iovlen = 1;
            message.msg_control = room;
            message.msg_controllen = sizeof room;
            const ssize_t got = ::recvmsg(control_descriptor, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
            if (got < 0 && errno == EINTR) continue;
            if (got < 0 && errno == EAGAIN) return true;
            if (got <= 0) return false;
            UniqueFd upstream;
            if (const cmsghdr* const note = CMSG_FIRSTHDR(&message);
                note != nullptr && note->cmsg_type == SCM_RIGHTS && note->cmsg_len == CMSG_LEN(sizeof(int))) {
                int descriptor = -1;
                std::memcpy(&descriptor, CMSG_DATA(note), sizeof descriptor);
                upstream.reset(descriptor);
            }
            Announced announced;
            if (static_cast<std::size_t>(got) < sizeof announced) continue;
            std::memcpy(&announced, text.data(), sizeof announced);
            if (!upstream) {  // no descriptor is left here
                report({announced.id, Beginning::abandoned, {}});
                continue;
            }
            Word word{announced.id, {}, std::move(upstream)};
            for (const char *at = text.data() + sizeof announced, *const end = text.data() + got; at < end;) {
                const std::string_view name(at, ::strnlen(at, static_cast<std::size_t>(end - at)));
                word.names.emplace_back(name);
                at += name.size() + 1;
            }
            UniqueFd client;
            if (unnamed_.take(announced.source, client))
                begin(std::move(client), std::move(word));
            else
                awaited_.add(announced.source, std::move(word), Clock::now() + longest_awaited);
        }
    }

    void accept_all(int listener) {
        for (;;) {
            sockaddr_storage address{};
            socklen_t size = sizeof address;
            UniqueFd client(::accept4(listener, reinterpret_cast<sockaddr*>(&address), &size,
                                      SOCK_CLOEXEC | SOCK_NONBLOCK));
            if (!client && (errno == EINTR || errno == ECONNABORTED)) continue;
            if (!client && (errno == EMFILE || errno == ENFILE)) {
                // The listener would stay readable for ever: the connection is closed.
                spare_.reset();
                client.reset(::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC));
                client.reset();
                spare_.reset(::fcntl(control_descriptor, F_DUPFD_CLOEXEC, first_free_descriptor));
                return;
            }
            if (!client) return;
            const Source source = source_of(address);
            Word word;
            if (awaited_.take(source, word))
                begin(std::move(client), std::move(word));
            else
                unnamed_.add(source, std::move(client), Clock::now() + longest_unnamed);
        }
    }

    void begin(UniqueFd client, Word word) {
        const int upstream = word.upstream.get(), target = client.get();
        static_cast<void>(::fcntl(upstream, F_SETFL, ::fcntl(upstream, F_GETFL) | O_NONBLOCK));
        const std::uint64_t event = next_event_++;
        connections_[event] = std::make_unique<Connection>(word.id, std::move(word.names), std::move(client),
                                                           std::move(word.upstream));
        // Each change of either socket wakes once; a connection always goes on until it would wait.
        constexpr std::uint32_t kinds = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET;
        if (!watch(target, event, kinds) || !watch(upstream, event, kinds)) {
            report({word.id, Beginning::abandoned, {}});
            connections_.erase(event);
            return;
        }
        advance(event);
    }

    void advance(std::uint64_t event) {
        const auto found = connections_.find(event);
        if (found == connections_.end()) return;  // ended by an earlier event of the same turn
        const Connection::Progress progress = found->second->advance(buffer_);
        if (const Judged* const judged = found->second->take_judged()) report(*judged);
        found->second->tell_refused();
        if (progress == Connection::Progress::over) connections_.erase(found);
        if (progress == Connection::Progress::more) ready_.push_back(event);
    }

    void drop_expired() {
        const Clock::time_point now = Clock::now();
        for (UniqueFd client; unnamed_.take_expired(now, client);) client.reset();
        for (Word word; awaited_.take_expired(now, word);) report({word.id, Beginning::abandoned, {}});
    }

    /// The supervisor always reads, so this waits for it only.
    static void report(const Judged& judged) {
        while (::send(control_descriptor, &judged, sizeof judged, MSG_NOSIGNAL) < 0 && errno == EINTR) {
        }
    }

    std::vector<char> buffer_;
    UniqueFd epoll_, spare_;
    Unmatched<UniqueFd> unnamed_;
    Unmatched<Word> awaited_;
    std::map<std::uint64_t, std::unique_ptr<Connection>> connections_;
    std::deque<std::uint64_t> ready_;
    std::uint64_t next_event_ = first_connection_event;
};

}  // namespace

int run_front() {
    raise_open_files();
    Front front;
    if (!front.prepare() || !confine_front()) return 125;
    return front.serve();
}

}  // namespace callgate::relay
