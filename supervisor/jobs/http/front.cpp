#include "supervisor/jobs/http/front.hpp"

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <memory>
#include <set>
#include <unordered_map>
#include <utility>

#include "base/json_read.hpp"
#include "base/json_writer.hpp"
#include "base/number.hpp"
#include "base/read_whole.hpp"
#include "base/sha256.hpp"
#include "relay/confine.hpp"
#include "supervisor/jobs/http/access.hpp"
#include "supervisor/jobs/http/answer.hpp"
#include "supervisor/jobs/http/connection.hpp"
#include "supervisor/jobs/http/request.hpp"
#include "supervisor/jobs/http/sandbox_fusion.hpp"
#include "supervisor/jobs/job.hpp"
#include "supervisor/jobs/server.hpp"

namespace callgate::jobs::http {

namespace {

constexpr std::size_t max_connections = 10'000, kept_descriptors = 32;
/// Jobs that may wait in the server beyond those that run.
constexpr std::size_t max_waiting_jobs = 900;
constexpr std::size_t max_bodies = std::size_t{256} << 20U;   // of all connections
constexpr std::size_t max_answers = std::size_t{256} << 20U;  // that wait for their readers
constexpr std::size_t piece = 65536;
constexpr std::uint64_t jobs_event = 0, listener_event = 1, first_connection = 2;

std::set<std::string, std::less<>> programs;  // of PATH, before the process is confined

bool has_program(std::string_view name) { return programs.contains(name); }

/// A job that the server has.
struct InFlight {
    std::uint64_t connection = 0;  // 0: its client has gone
    std::string id;                // the client's, as JSON
    bool stream = false;
    std::optional<FusionJob> fusion;
    Clock::time_point began = Clock::now();
};

class Front {
public:
    explicit Front(FrontSettings settings)
        : settings_(std::move(settings)), access_(settings_), max_(descriptors()) {
        std::array<unsigned char, 16> random{};
        if (::getrandom(random.data(), random.size(), 0) != static_cast<ssize_t>(random.size())) max_ = 0;
        mark_ = sha256_hex({reinterpret_cast<const char*>(random.data()), random.size()}).substr(0, 32);
    }

    /// Makes what needs calls that the filter does not allow.
    [[nodiscard]] bool prepare() {
        epoll_.reset(::epoll_create1(EPOLL_CLOEXEC));
        return max_ > 0 && epoll_ && watch(EPOLL_CTL_ADD, jobs_descriptor, jobs_event, EPOLLIN) &&
               watch(EPOLL_CTL_ADD, listener_descriptor, listener_event, EPOLLIN);
    }

    void serve() {
        while (!over()) {
            std::array<epoll_event, 256> events;
            const int count = ::epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()),
                                           connections_.empty() && !server_ended_ ? -1 : 1000);
            if (count < 0 && errno != EINTR) return;
            now_ = Clock::now();
            for (int index = 0; index < count; ++index)
                handle(events[static_cast<std::size_t>(index)].data.u64,
                       events[static_cast<std::size_t>(index)].events);
            end_late();
            watch_server();
            finish_drain();
        }
    }

private:
    static std::size_t descriptors() {
        rlimit limit{};
        if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return 0;
        limit.rlim_cur = std::min<rlim_t>(limit.rlim_max, max_connections + kept_descriptors);
        if (::setrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur <= kept_descriptors) return 0;
        return limit.rlim_cur - kept_descriptors;
    }

    bool watch(int operation, int descriptor, std::uint64_t event, std::uint32_t kinds) {
        epoll_event wanted{};
        wanted.events = kinds;
        wanted.data.u64 = event;
        return ::epoll_ctl(epoll_.get(), operation, descriptor, &wanted) == 0;
    }

    /// After the server's end only answers are left to be written.
    [[nodiscard]] bool over() const {
        return server_ended_ &&
               (now_ > answers_until_ || std::ranges::all_of(connections_, [](const auto& one) {
                    return one.second->out.size() == 0;
                }));
    }

    void handle(std::uint64_t event, std::uint32_t kinds) {
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

    // Connections

    void accept_all() {
        for (;;) {
            UniqueFd socket(::accept4(listener_descriptor, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
            if (!socket && (errno == EINTR || errno == ECONNABORTED)) continue;
            if (!socket) return;
            if (connections_.size() >= max_ && !make_room()) continue;  // it is closed
            auto one = std::make_shared<Connection>();
            one->number = next_connection_++;
            one->deadline = now_ + head_time;
            one->watched = EPOLLIN;
            one->socket = std::move(socket);
            if (!watch(EPOLL_CTL_ADD, one->socket.get(), one->number, one->watched)) continue;
            connections_.emplace(one->number, std::move(one));
        }
    }

    /// The connection that has waited longest for its request, or for its end, gives way.
    bool make_room() {
        std::shared_ptr<Connection> first;
        for (const auto& [number, one] : connections_)
            if ((one->phase == Phase::head || one->phase == Phase::last) &&
                (!first || one->deadline < first->deadline))
                first = one;
        if (first) drop(*first);
        return first != nullptr;
    }

    void drop(Connection& one) {
        if (!connections_.contains(one.number)) return;
        if (const auto job = in_flight_.find(one.job); one.phase == Phase::busy && job != in_flight_.end()) {
            job->second.connection = 0;
            ++counts_.cancelled;
            to_server_.add("{\"cancel\":" + std::to_string(one.job) + "}\n");
        }
        release_body(one);
        answers_ -= one.out.size();
        one.socket.reset();
        connections_.erase(one.number);
    }

    void release_body(Connection& one) {
        bodies_ -= std::exchange(one.reserved, 0);
        one.body.reset();
    }

    void end_late() {
        if (now_ < next_look_) return;
        next_look_ = now_ + std::chrono::milliseconds(500);
        std::vector<std::shared_ptr<Connection>> late;
        for (const auto& [number, one] : connections_)
            if (one->deadline <= now_) late.push_back(one);
        for (const auto& one : late) {
            const bool reading = (one->phase == Phase::head && !one->in.empty()) || one->phase == Phase::body;
            if (!reading || one->out.size() > 0) {
                drop(*one);
                continue;
            }
            refuse(*one, {408, "the request did not come in time"});
            advance(*one);
        }
    }

    /// False where the connection is broken.
    bool receive(Connection& one) {
        std::array<char, piece> bytes;
        for (int round = 0; round < 16 && one.wants_bytes(); ++round) {
            const ssize_t got = ::recv(one.socket.get(), bytes.data(), bytes.size(), 0);
            if (got < 0 && errno == EINTR) continue;
            if (got < 0) return errno == EAGAIN || errno == EWOULDBLOCK;
            one.hung_up = got == 0;
            if (one.phase == Phase::last) continue;  // read, so that the last answer is not lost by a reset
            if (one.in.empty() && one.phase == Phase::head) one.deadline = now_ + head_time;
            one.in.append(bytes.data(), static_cast<std::size_t>(got));
            take(one);
        }
        return true;
    }

    /// Takes requests from what was read.
    void take(Connection& one) {
        for (bool goes_on = true; goes_on && !one.in.empty();) {
            if (one.done || one.out.size() >= max_unread) return;
            goes_on = one.phase == Phase::head ? take_head(one) : one.phase == Phase::body && take_body(one);
        }
    }

    bool take_head(Connection& one) {
        const std::size_t end = one.in.find("\r\n\r\n");
        if (end == std::string::npos || end + 4 > max_head) {
            if (one.in.size() >= max_head || end != std::string::npos)
                return refuse(one, {431, "the head is longer than 16 KiB"});
            if (no_head(one.in))
                return refuse(one, {400,
                                    "the request holds a line that does not end with CR LF, or a byte "
                                    "that is not printable"});
            return false;
        }
        auto head = parse_head(std::string_view(one.in).substr(0, end + 4));
        one.in.erase(0, end + 4);
        if (auto* const refused = std::get_if<Refused>(&head)) return refuse(one, *refused);
        one.head = std::get<Head>(std::move(head));
        one.closes = one.closes || draining_;
        if (const auto refused = route(one)) return refuse(one, *refused);
        return true;
    }

    bool take_body(Connection& one) {
        const std::size_t before = one.body->bytes().size();
        one.in.erase(0, one.body->take(one.in));
        if (one.head.chunked) {
            const std::size_t more = one.body->bytes().size() - before;
            bodies_ += more;
            one.reserved += more;
            if (held_bodies() > max_bodies) return refuse(one, {503, "too many bodies are being read"});
        }
        if (one.body->refused()) return refuse(one, *one.body->refused());
        if (one.body->whole()) start_job(one);
        return one.phase == Phase::head;
    }

    /// The bytes of bodies that are being read, and of jobs that the server has not taken yet.
    [[nodiscard]] std::size_t held_bodies() const { return bodies_ + to_server_.size(); }

    // Requests

    /// Answers a request that has no body, or begins to read the body.
    std::optional<Refused> route(Connection& one) {
        std::string_view path = std::string_view(one.head.target).substr(0, one.head.target.find('?'));
        if (!one.head.keeps_open) one.closes = true;
        const bool reads = one.head.method == "GET";
        if (reads && (one.head.chunked || one.head.length > 0)) return Refused{400, "GET has no body here"};
        const bool authorized = access_.bears_token(one.head, path);
        if (path == "/healthz" && reads) return answer_health(one);
        if (!authorized) return Refused{401, "the token is missing or wrong"};
        if (auto refused = access_.check_host(one.head)) return refused;
        if (path == "/metrics" && reads) {
            counts_.in_flight = in_flight_.size();
            counts_.connections = connections_.size();
            counts_.draining = draining_;
            return answer(one, 200, metrics(counts_), "text/plain; version=0.0.4");
        }
        one.fusion = path == "/run_code" ? fusion_job : path == "/run_jupyter" ? notebook_job : nullptr;
        if (path != "/v1/jobs" && one.fusion == nullptr)
            return Refused{404,
                           "known: POST /v1/jobs, /run_code and /run_jupyter, GET /healthz and /metrics"};
        if (one.head.method != "POST") return Refused{405, "a job is sent by POST"};
        return begin_body(one);
    }

    std::optional<Refused> begin_body(Connection& one) {
        if (auto refused = access_.check_type(one.head)) return refused;
        if (!one.head.framed) return Refused{411, "the body has no Content-Length"};
        if (draining_) return Refused{503, "the service is ending, and takes no more jobs"};
        if (in_flight_.size() >= settings_.jobs + max_waiting_jobs) return Refused{503, "too many jobs wait"};
        if (held_bodies() + one.head.length > max_bodies)
            return Refused{503, "too many bodies are being read"};
        one.reserved = one.head.length;
        bodies_ += one.reserved;
        one.body.emplace(one.head);
        one.phase = Phase::body;
        one.deadline = now_ + body_time;
        if (one.head.expects_continue) put(one, "HTTP/1.1 100 Continue\r\n\r\n");
        if (one.body->whole()) return Refused{400, "the job is empty"};
        return std::nullopt;
    }

    std::optional<Refused> answer_health(Connection& one) {
        return draining_ ? answer(one, 503, "{\"status\":\"draining\"}\n")
                         : answer(one, 200, "{\"status\":\"ok\"}\n");
    }

    std::optional<Refused> answer(Connection& one, int status, std::string_view body,
                                  std::string_view type = "application/json") {
        ++counts_.responses[status];
        put(one, response(status, body, one.closes, type));
        become_idle(one);
        return std::nullopt;
    }

    /// The last answer of its connection. Always false.
    bool refuse(Connection& one, const Refused& why) {
        ++counts_.responses[why.status];
        one.closes = true;
        put(one, error_response(why.status, why.why, true));
        become_idle(one);
        return false;
    }

    void become_idle(Connection& one) {
        release_body(one);
        one.phase = Phase::head;
        one.job = 0;
        one.done = one.closes;
        one.deadline = now_ + (one.in.empty() ? idle_time : head_time);
    }

    // Jobs

    void start_job(Connection& one) {
        const std::uint64_t number = next_job_++;
        InFlight job;
        std::string text = std::move(one.body->bytes());
        release_body(one);
        if (one.fusion != nullptr) {
            auto made = one.fusion(text, mark_ + std::to_string(number), has_program);
            if (const auto* const refused = std::get_if<Refused>(&made)) return refuse_job(one, *refused);
            job.fusion = std::get<FusionJob>(std::move(made));
            text = std::move(job.fusion->job);
        }
        auto passed = pass_on(text, number);
        if (const auto* const fault = std::get_if<Fault>(&passed)) return refuse_job(one, {400, fault->why});
        auto& good = std::get<Passed>(passed);
        job.id = std::move(good.id);
        job.stream = good.stream;
        job.connection = one.number;
        job.began = now_;
        to_server_.add(good.line);
        in_flight_.emplace(number, std::move(job));
        ++counts_.jobs;
        one.job = number;
        one.phase = Phase::busy;
        one.deadline = Clock::time_point::max();
    }

    /// Its body was read whole, so the connection can go on.
    void refuse_job(Connection& one, const Refused& why) {
        ++counts_.refused;
        ++counts_.responses[why.status];
        put(one, error_response(why.status, why.why, one.closes));
        become_idle(one);
    }

    /// A line of the server: an answer, a piece of output, or the wish for the end.
    void take_line(std::string_view line) {
        constexpr std::string_view id = "{\"id\":", streams = "\"stream\":\"", fails = "\"error\":";
        if (line == drain_line.substr(0, drain_line.size() - 1)) {
            draining_ = true;
            return;
        }
        if (!line.starts_with(id)) return;  // a job was cancelled
        line.remove_prefix(id.size());
        const std::size_t comma = std::min(line.find(','), line.size() - 1);
        const auto number = parse_number<std::uint64_t>(line.substr(0, comma));
        line.remove_prefix(comma + 1);
        const auto found = in_flight_.find(number.value_or(0));
        if (found == in_flight_.end()) return;
        const std::shared_ptr<Connection> client = connection(found->second.connection);
        if (line.starts_with(streams)) {
            line.remove_prefix(streams.size());
            const std::string_view output = line.substr(0, line.find('"'));
            line.remove_prefix(output.size() + 2);
            if (client) send_event(*client, output, '{' + std::string(line));
            return;
        }
        InFlight job = std::move(found->second);
        in_flight_.erase(found);
        counts_.job_seconds += std::chrono::duration<double>(now_ - job.began).count();
        if (client) answer_job(*client, job, line, line.starts_with(fails) ? 422 : 200);
    }

    [[nodiscard]] std::shared_ptr<Connection> connection(std::uint64_t number) const {
        const auto found = connections_.find(number);
        return found == connections_.end() ? nullptr : found->second;
    }

    void answer_job(Connection& one, const InFlight& job, std::string_view rest, int status) {
        std::string body = "{";
        if (!job.id.empty()) body += "\"id\":" + job.id + ',';
        body += rest;
        if (job.fusion) {
            body = fusion_answer(*job.fusion, body);
            status = 200;
        }
        if (!job.stream) {
            static_cast<void>(answer(one, status, body + '\n'));
        } else {
            send_event(one, "answer", body);
            one.closes = true;
            become_idle(one);
        }
        take(one);
        advance(one);
    }

    void send_event(Connection& one, std::string_view event, std::string_view data) {
        if (!std::exchange(one.streams, true)) {
            ++counts_.responses[200];
            put(one, stream_head());
        }
        put(one, stream_event(event, data));
        if (event != "answer") advance(one);
    }

    // The server

    void advance_server(std::uint32_t kinds) {
        if ((kinds & (EPOLLIN | EPOLLHUP | EPOLLERR)) != 0) read_server();
    }

    void read_server() {
        std::array<char, piece> bytes;
        for (int round = 0; round < 64 && answers_ < max_answers; ++round) {
            const ssize_t got = ::recv(jobs_descriptor, bytes.data(), bytes.size(), MSG_DONTWAIT);
            if (got < 0 && errno == EINTR) continue;
            if (got < 0 && errno == EAGAIN) return;
            if (got <= 0) return server_gone();
            std::string_view arrived(bytes.data(), static_cast<std::size_t>(got));
            for (std::size_t end = 0; (end = arrived.find('\n')) != std::string_view::npos;
                 arrived.remove_prefix(end + 1)) {
                line_ += arrived.substr(0, end);
                take_line(std::exchange(line_, {}));
            }
            line_ += arrived;
        }
    }

    /// Writes what there is, and waits for room and for answers that can be kept.
    void watch_server() {
        if (server_ended_) return;
        static_cast<void>(to_server_.send(jobs_descriptor));  // its end is seen by reading
        const std::uint32_t wanted = (answers_ < max_answers ? std::uint32_t{EPOLLIN} : 0U) |
                                     (to_server_.size() == 0 ? 0U : std::uint32_t{EPOLLOUT});
        if (wanted != std::exchange(server_watched_, wanted))
            watch(EPOLL_CTL_MOD, jobs_descriptor, jobs_event, wanted);
    }

    /// When every job is answered, the server gets the end of its input.
    void finish_drain() {
        if (!draining_ || server_ended_ || input_ended_ || !in_flight_.empty() || to_server_.size() > 0)
            return;
        input_ended_ = true;
        ::shutdown(jobs_descriptor, SHUT_WR);
    }

    void server_gone() {
        server_ended_ = true;
        answers_until_ = now_ + last_time;
        watch(EPOLL_CTL_DEL, jobs_descriptor, 0, 0);
        watch(EPOLL_CTL_DEL, listener_descriptor, 0, 0);
        draining_ = true;
        for (const auto& [number, job] : std::exchange(in_flight_, {})) {
            const std::shared_ptr<Connection> client = connection(job.connection);
            if (!client) continue;
            if (!client->streams) refuse(*client, {502, "the job server has ended; the job may have run"});
            advance(*client);
        }
    }

    // Writing

    void put(Connection& one, std::string_view text) {
        one.out.add(text);
        answers_ += text.size();
    }

    /// Writes what there is room for, and says what the connection waits for.
    void advance(Connection& one) {
        if (!connections_.contains(one.number)) return;
        for (bool goes_on = true; goes_on;) {
            const std::size_t unsent = one.out.size(), before = one.in.size();
            const bool good = one.write(now_);
            answers_ -= unsent - one.out.size();
            if (!good) return drop(one);
            if (one.out.size() == 0) take(one);
            goes_on = one.in.size() != before;
        }
        if (one.out.size() == 0 && one.hung_up) return drop(one);
        if (one.out.size() == 0 && one.done && one.phase == Phase::head) {
            ::shutdown(one.socket.get(), SHUT_WR);
            one.phase = Phase::last;
            one.in.clear();
            one.deadline = now_ + last_time;
        }
        const std::uint32_t wanted = (one.wants_bytes() ? std::uint32_t{EPOLLIN} : 0U) |
                                     (one.out.size() > 0 ? std::uint32_t{EPOLLOUT} : 0U) |
                                     (one.phase == Phase::busy ? std::uint32_t{EPOLLRDHUP} : 0U);
        if (wanted != std::exchange(one.watched, wanted))
            watch(EPOLL_CTL_MOD, one.socket.get(), one.number, wanted);
    }

    FrontSettings settings_;
    Access access_;
    std::size_t max_;
    std::string mark_;  // of this process, where a number of a job follows
    UniqueFd epoll_;
    Clock::time_point now_ = Clock::now(), answers_until_, next_look_;
    std::unordered_map<std::uint64_t, std::shared_ptr<Connection>> connections_;
    std::unordered_map<std::uint64_t, InFlight> in_flight_;
    std::uint64_t next_connection_ = first_connection, next_job_ = 1;
    Outgoing to_server_;
    std::string line_;
    std::size_t bodies_ = 0, answers_ = 0;
    std::uint32_t server_watched_ = EPOLLIN;
    bool draining_ = false, input_ended_ = false, server_ended_ = false;
    Counts counts_;
};

/// Programs that languages need are looked for once: later nothing can be opened.
void find_programs() {
    const char* const path = ::getenv("PATH");
    for (std::string_view rest = path == nullptr ? "" : path; !rest.empty();) {
        const std::string directory(rest.substr(0, rest.find(':')));
        rest.remove_prefix(std::min(rest.size(), directory.size() + 1));
        for (const std::string_view name : fusion_programs())
            if (::access((directory + '/' + std::string(name)).c_str(), X_OK) == 0) programs.emplace(name);
    }
}

}  // namespace

std::string text_of(const FrontSettings& settings) {
    return json_text([&settings](JsonWriter& json) {
        json.begin_object().member("token", settings.token).member("no_browsers", settings.no_browsers);
        json.member("jobs", settings.jobs).end_object();
    });
}

int run_front() {
    const auto text = read_whole(settings_descriptor, piece);
    if (!text) return 125;
    const json_read::json read = json_read::parse_object(*text);
    ::close(settings_descriptor);
    find_programs();
    Front front({json_read::text(json_read::member(read, "token")),
                 json_read::truth(json_read::member(read, "no_browsers")),
                 json_read::number(json_read::member(read, "jobs"))});
    if (!front.prepare() || !relay::confine_front()) return 125;
    front.serve();
    return 0;
}

}  // namespace callgate::jobs::http
