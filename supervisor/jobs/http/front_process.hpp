// The front's process: its connections, the jobs that the server has for them, and what goes to and fro.
//
// It has one thread, which waits in epoll_wait(2) alone. See front.hpp for what a client controls.
#pragma once

#include <sys/epoll.h>

#include <chrono>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "base/unique_fd.hpp"
#include "supervisor/jobs/http/access.hpp"
#include "supervisor/jobs/http/answer.hpp"
#include "supervisor/jobs/http/connection.hpp"
#include "supervisor/jobs/http/front.hpp"
#include "supervisor/jobs/http/outgoing.hpp"
#include "supervisor/jobs/http/request.hpp"
#include "supervisor/jobs/http/sandbox_fusion.hpp"
#include "supervisor/jobs/http/swe_rex.hpp"

namespace callgate::jobs::http {

/// At most so many bytes are read at once.
inline constexpr std::size_t max_piece = 65536;
inline constexpr std::size_t max_bodies = std::size_t{256} << 20U;   // of all connections, and of all jobs
inline constexpr std::size_t max_answers = std::size_t{256} << 20U;  // that wait for their readers
/// Jobs that may wait in the server beyond those that run.
inline constexpr std::size_t max_waiting_jobs = 900;
inline constexpr std::uint64_t jobs_event = 0, listener_event = 1, first_connection = 2;

/// A job that the server has.
struct InFlight {
    std::uint64_t connection = 0;  // 0: its client has gone
    std::string id;                // the client's, as JSON
    bool stream = false;
    std::optional<FusionJob> fusion;
    std::string input_path;         // of a stream whose stdin is open
    std::shared_ptr<RexCall> call;  // of SWE-ReX: answered by it, or the first of its session
    std::string session;            // of SWE-ReX or E2B: the job is this session or context
    std::string process, sandbox;   // of E2B: what its List tells, and the sandbox's id
    std::size_t size = 0;           // of its line
    int holders = 0;                // connections by which its output waits
    Clock::time_point began = Clock::now();
};

/// Input that the server has not answered.
struct InputWait {
    std::uint64_t connection = 0;
    std::shared_ptr<RexCall> call;  // in place of a connection: an action of a session
    std::string session;
    std::size_t size = 0;  // of its line
};

class Front {
public:
    explicit Front(FrontSettings settings);
    /// Makes what needs calls that the filter does not allow.
    [[nodiscard]] bool prepare();
    /// Returns false if no more connections can come, because callgate-tls has ended.
    [[nodiscard]] bool serve();

private:
    [[nodiscard]] std::size_t descriptors() const;
    bool watch(int operation, int descriptor, std::uint64_t event, std::uint32_t kinds);
    /// After the server's end only answers are left to be written.
    [[nodiscard]] bool over() const;
    void handle(std::uint64_t event, std::uint32_t kinds);

    // clients.cpp
    void accept_all();
    [[nodiscard]] UniqueFd next_client();
    /// The connection that has waited longest for its request, or for its end, gives way.
    bool make_room();
    void drop(Connection& one);
    void release_body(Connection& one);
    void end_late();
    /// While as many answers wait as may, those that their clients have not read for longest give way.
    void end_slow_readers();
    /// False where the connection is broken.
    bool receive(Connection& one);
    /// Takes requests from what was read.
    void take(Connection& one);
    bool take_head(Connection& one);
    bool take_body(Connection& one);
    /// The body that has been read for longest gives way. False where that is the body of `reading`.
    bool end_oldest_body(Connection& reading);
    /// The bytes of bodies that are being read, and of jobs that the server has not taken yet.
    [[nodiscard]] std::size_t held_bodies() const;
    void put(Connection& one, std::string_view text);
    /// The output of a job waits for its own client, so that no other client's answer does.
    void hold(Connection& one, bool on);
    /// Writes what there is room for, and says what the connection waits for.
    void advance(Connection& one);

    // requests.cpp
    /// Answers a request that has no body, or begins to read the body.
    std::optional<Refused> route(Connection& one);
    std::optional<Refused> begin_body(Connection& one);
    std::optional<Refused> answer_health(Connection& one);
    std::optional<Refused> answer(Connection& one, int status, std::string_view body,
                                  std::string_view type = "application/json");
    /// The last answer of its connection. Always false.
    bool refuse(Connection& one, const Refused& why);
    void become_idle(Connection& one);

    // in_flight.cpp
    /// Whether the server has as many jobs, or as many bytes of them, as it may.
    [[nodiscard]] bool is_full() const;
    void start_job(Connection& one);
    void hand_on(std::uint64_t number, InFlight job, std::string_view line);
    /// Input counts among the bytes of jobs until the server has answered it: a job may never read it.
    void hand_input_on(std::uint64_t own, InputWait wait, std::string_view line);
    /// Its body was read whole, so the connection can go on.
    void refuse_job(Connection& one, const Refused& why);
    /// A line of the server: an answer, a piece of output, or the wish for the end.
    void take_line(std::string_view line);
    [[nodiscard]] std::shared_ptr<Connection> connection(std::uint64_t number) const;
    void answer_job(Connection& one, const InFlight& job, std::string_view rest, int status);
    void send_event(Connection& one, std::string_view event, std::string_view data);

    // rex_calls.cpp
    void start_call(Connection& one, const std::string& body);
    void carry_out(Connection& one, const std::shared_ptr<RexCall>& call, const std::string& body);
    /// `call` waits for what the session answers to `line`, its input `own`.
    void hand_line_on(std::uint64_t own, const std::shared_ptr<RexCall>& call,
                      std::map<std::string, RexSession>::value_type& session, const std::string& line);
    void start_rex_job(Connection& one, const std::shared_ptr<RexCall>& call, const std::string& text,
                       const std::string& session);
    void complete(const std::shared_ptr<RexCall>& call, RexAnswer answer);
    void give_answer(RexCall& call);
    void take_session_output(const std::string& name, std::string_view text);
    /// Ends the session with the longest line, where that line or those of all sessions are too long.
    void bound_lines(RexSession& session);
    void call_ended(const InFlight& job, std::string_view job_answer);
    void end_session(const RexSession& session);
    /// Ends all sessions. `call` is answered when they have ended; null: nobody asked for it.
    void close_sessions(const std::shared_ptr<RexCall>& call);
    [[nodiscard]] bool has_rex_sessions() const;
    void start_input(Connection& one, std::string_view body);
    void take_input_answer(std::string_view line);

    // e2b_calls.cpp
    std::optional<Refused> route_e2b(Connection& one, std::string_view path);
    void carry_out_e2b(Connection& one, const std::shared_ptr<RexCall>& call, const std::string& body);
    void start_process(Connection& one, const std::shared_ptr<RexCall>& call, const std::string& body);
    void ask_process(Connection& one, const std::shared_ptr<RexCall>& call, const std::string& body);
    [[nodiscard]] RexAnswer list_processes(const std::string& sandbox) const;
    void serve_contexts(Connection& one, const std::shared_ptr<RexCall>& call, const std::string& body);
    /// False where there is no place for it, and then `call` is answered.
    bool start_context(Connection& one, const std::shared_ptr<RexCall>& call, const std::string& id,
                       const std::string& directory);
    void start_cell(Connection& one, const std::shared_ptr<RexCall>& call, const std::string& body);
    /// Passes on a line of a cell. Returns whether it was the last one.
    bool give_line(RexCall& call, std::string_view line);
    void interrupt_cells(std::uint64_t connection);
    void remove_sandbox(const std::string& sandbox);
    void send_piece(Connection& one, std::string_view type, std::string_view piece);
    void end_stream(Connection& one);

    // job_server.cpp
    void advance_server(std::uint32_t kinds);
    void read_server();
    /// Writes what there is, and waits for room and for answers that can be kept.
    void watch_server();
    /// When every job is answered, the server gets the end of its input.
    void finish_drain();
    void server_gone();

    FrontSettings settings_;
    Access access_;
    std::size_t max_;
    std::string secret_;  // what paths for input are made of
    std::string mark_;    // of this process, where a number of a job follows
    UniqueFd epoll_;
    Clock::time_point now_ = Clock::now(), answers_until_, next_look_;
    std::unordered_map<std::uint64_t, std::shared_ptr<Connection>> connections_;
    std::unordered_map<std::uint64_t, InFlight> in_flight_;
    std::uint64_t next_connection_ = first_connection, next_job_ = 1;
    std::unordered_map<std::string, std::uint64_t> input_paths_;
    std::unordered_map<std::uint64_t, InputWait> inputs_;  // by the id of their line
    std::map<std::string, RexSession> sessions_;
    std::unordered_map<std::string, std::shared_ptr<RexCall>> calls_;  // by key
    std::deque<std::string> kept_answers_;                             // keys of `calls_` that are done
    std::vector<std::shared_ptr<RexCall>> close_calls_;
    std::size_t kept_bytes_ = 0;
    std::uint64_t taking_ = 0;  // the connection whose request is being started
    Outgoing to_server_;
    std::string line_;
    std::size_t bodies_ = 0, in_flight_bytes_ = 0, answers_ = 0;
    std::uint32_t server_watched_ = EPOLLIN;
    bool draining_ = false, input_ended_ = false, server_ended_ = false, tls_ended_ = false;
    Counts counts_;
};

}  // namespace callgate::jobs::http
