#include "supervisor/jobs/http/front.hpp"

#include <sys/random.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "base/json_read.hpp"
#include "base/json_writer.hpp"
#include "base/read_whole.hpp"
#include "base/sha256.hpp"
#include "relay/confine.hpp"
#include "supervisor/jobs/http/front_process.hpp"
#include "supervisor/jobs/http/programs.hpp"
#include "tls/protocol.hpp"

namespace callgate::jobs::http {

Front::Front(FrontSettings settings)
    : settings_(std::move(settings)), access_(settings_), max_(descriptors()) {
    std::array<unsigned char, 16> random{};
    if (::getrandom(random.data(), random.size(), 0) != static_cast<ssize_t>(random.size())) max_ = 0;
    secret_ = sha256_hex("input " + std::string(reinterpret_cast<const char*>(random.data()), random.size()));
    mark_ = sha256_hex({reinterpret_cast<const char*>(random.data()), random.size()}).substr(0, 32);
}

bool Front::prepare() {
    epoll_.reset(::epoll_create1(EPOLL_CLOEXEC));
    return max_ > 0 && epoll_ && watch(EPOLL_CTL_ADD, jobs_descriptor, jobs_event, EPOLLIN) &&
           watch(EPOLL_CTL_ADD, listener_descriptor, listener_event, EPOLLIN);
}

bool Front::serve() {
    while (!over()) {
        std::array<epoll_event, 256> events;
        const int count = ::epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()),
                                       connections_.empty() && !server_ended_ ? -1 : 1000);
        if (count < 0 && errno != EINTR) return true;
        now_ = Clock::now();
        for (int index = 0; index < count; ++index)
            handle(events[static_cast<std::size_t>(index)].data.u64,
                   events[static_cast<std::size_t>(index)].events);
        end_late();
        watch_server();
        finish_drain();
        if (tls_ended_) return false;
    }
    return true;
}

std::size_t Front::descriptors() const {
    using tls::kept_descriptors;
    const std::size_t each = settings_.tls ? 2 : 1;  // callgate-tls has two, and the same limit
    rlimit limit{};
    if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return 0;
    limit.rlim_cur = std::min<rlim_t>(limit.rlim_max, each * tls::max_connections + kept_descriptors);
    if (::setrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur <= kept_descriptors) return 0;
    return (limit.rlim_cur - kept_descriptors) / each;
}

bool Front::watch(int operation, int descriptor, std::uint64_t event, std::uint32_t kinds) {
    epoll_event wanted{};
    wanted.events = kinds;
    wanted.data.u64 = event;
    return ::epoll_ctl(epoll_.get(), operation, descriptor, &wanted) == 0;
}

bool Front::over() const {
    return server_ended_ && (now_ > answers_until_ || std::ranges::all_of(connections_, [](const auto& one) {
                                 return one.second->out.size() == 0;
                             }));
}

void Front::handle(std::uint64_t event, std::uint32_t kinds) {
    if (event == jobs_event) return advance_server(kinds);
    if (event == listener_event) return accept_all();
    const std::shared_ptr<Connection> one = connection(event);
    if (!one) return;
    if ((kinds & EPOLLIN) != 0 && !receive(*one)) return drop(*one);
    // A client that sends nothing more has gone: what it asked for is not waited for.
    const bool gone = (kinds & EPOLLRDHUP) != 0 && one->phase == Phase::busy;
    if (gone || (kinds & (EPOLLERR | EPOLLHUP)) != 0) return drop(*one);
    advance(*one);
}

std::string text_of(const FrontSettings& settings) {
    return json_text([&settings](JsonWriter& json) {
        json.begin_object().member("token", settings.token).member("no_browsers", settings.no_browsers);
        json.member("jobs", settings.jobs).member("tls", settings.tls).end_object();
    });
}

int run_front() {
    const auto text = read_whole(settings_descriptor, max_piece);
    if (!text) return 125;
    const json_read::json read = json_read::parse_object(*text);
    ::close(settings_descriptor);
    find_programs();
    Front front({json_read::text(json_read::member(read, "token")),
                 json_read::truth(json_read::member(read, "no_browsers")),
                 json_read::number(json_read::member(read, "jobs")),
                 json_read::truth(json_read::member(read, "tls"))});
    if (!front.prepare() || !relay::confine_front()) return 125;
    return front.serve() ? 0 : 125;
}

}  // namespace callgate::jobs::http
