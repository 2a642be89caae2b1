#include <algorithm>
#include <utility>

#include "base/escape.hpp"
#include "base/json_read.hpp"
#include "supervisor/jobs/http/e2b.hpp"
#include "supervisor/jobs/http/front_process.hpp"
#include "supervisor/jobs/http/programs.hpp"
#include "supervisor/jobs/job.hpp"
#include "supervisor/jobs/strict_json.hpp"

namespace callgate::jobs::http {

namespace {

/// Answers are kept for clients that ask again. The oldest give way.
constexpr std::size_t max_kept_answers = 1000, max_kept_bytes = std::size_t{64} << 20U;
constexpr std::size_t max_queued_actions = 100;
/// A session's program writes lines of about twice its own bound.
constexpr std::size_t max_session_line = std::size_t{128} << 20U;
/// All sessions have so much: code in a session can write the beginning of a line, and no end.
constexpr std::size_t max_session_lines = std::size_t{256} << 20U;

/// A client may name a session "". E2B's keys begin with another byte.
std::string key_of_rex(const std::string& session) { return ' ' + session; }

RexAnswer refusal(int status, std::string_view why) {
    return {status, "{\"error\":" + json_string(why) + "}"};
}

}  // namespace

void Front::start_call(Connection& one, const std::string& body) {
    std::string key;
    if (const auto id = one.head.field("x-request-id"); id && one.e2b.empty())
        key = one.rex + ' ' + std::string(*id);
    one.phase = Phase::busy;
    one.deadline = Clock::time_point::max();
    const std::uint64_t before = std::exchange(taking_, one.number);
    if (const auto known = calls_.find(key); !key.empty() && known != calls_.end()) {
        known->second->clients.push_back(one.number);
        if (known->second->done) give_answer(*known->second);
    } else {
        const auto call = std::make_shared<RexCall>();
        call->clients.push_back(one.number);
        call->key = key;
        call->e2b = !one.e2b.empty();
        call->stream = call->e2b && has_stream(one.head);
        if (!key.empty()) calls_.emplace(key, call);
        try {
            call->e2b ? carry_out_e2b(one, call, body) : carry_out(one, call, body);
        } catch (const Unoffered& wrong) {
            complete(call, e2b_error("unimplemented", wrong.why));
        } catch (const InvalidRequest& wrong) {
            complete(call, call->e2b ? e2b_error("invalid_argument", wrong.why) : refusal(400, wrong.why));
        }
    }
    taking_ = before;
}

void Front::carry_out(Connection& one, const std::shared_ptr<RexCall>& call, const std::string& body) {
    if (!has_program("python3"))
        return complete(call, refusal(501,
                                      "these requests need the program python3, which this machine "
                                      "does not have"));
    if (one.rex == "/close") return close_sessions(call);
    if (one.rex == "/upload")
        return start_rex_job(one, call, rex_job(one.rex, body, one.head.field("content-type").value_or("")),
                             "");
    const RexRequest request = read_rex(body);
    if (one.rex == "/execute" && request.of_e2b) {
        call->e2b = true;
        return start_cell(one, call, body);
    }
    const std::string key = key_of_rex(request.session);
    const auto session = sessions_.find(key);
    if (one.rex == "/create_session") {
        if (session != sessions_.end())
            return complete(
                call, rex_exception("SessionExistsError", "session " + request.session + " already exists"));
        if (sessions_.size() + 1 >= settings_.jobs)
            return complete(
                call,
                refusal(
                    503,
                    "too many sessions: each is one of the jobs that run (--jobs), and one place is kept"));
        return start_rex_job(one, call, rex_job(one.rex, request.line, ""), key);
    }
    if (one.rex != "/run_in_session" && one.rex != "/close_session")
        return start_rex_job(one, call, rex_job(one.rex, request.line, ""), "");
    if (session == sessions_.end() || !session->second.closers.empty())
        return complete(call, rex_exception("SessionDoesNotExistError",
                                            "session '" + request.session + "' does not exist"));
    if (one.rex == "/close_session") {
        session->second.closers.push_back(call);
        return end_session(session->second);
    }
    if (session->second.calls.size() >= max_queued_actions)
        return complete(call, refusal(503, "100 commands wait in this session"));
    hand_line_on(next_job_++, call, *session, request.line);
}

void Front::hand_line_on(std::uint64_t own, const std::shared_ptr<RexCall>& call,
                         std::map<std::string, RexSession>::value_type& session, const std::string& line) {
    session.second.calls.push_back(call);
    hand_input_on(own, {0, call, session.first},
                  "{\"input\":" + std::to_string(session.second.job) + ",\"id\":" + std::to_string(own) +
                      ",\"text\":" + json_string(line) + "}\n");
}

void Front::start_rex_job(Connection& one, const std::shared_ptr<RexCall>& call, const std::string& text,
                          const std::string& session) {
    const std::uint64_t number = next_job_++;
    auto passed = pass_on(text, number);
    if (const auto* const fault = std::get_if<Fault>(&passed))
        return complete(call,
                        call->e2b ? e2b_error("invalid_argument", fault->why) : refusal(400, fault->why));
    InFlight job;
    job.call = call;
    if (!session.empty()) {
        job.session = session;
        sessions_.emplace(session, RexSession{number, {call}, {}, {}, {}, {}, false});
    } else if (call->key.empty()) {  // nobody can ask again, so the job ends with its client
        job.connection = one.number;
        one.job = number;
    }
    hand_on(number, std::move(job), std::get<Passed>(passed).line);
}

void Front::complete(const std::shared_ptr<RexCall>& call, RexAnswer answer) {
    if (call->done) return;
    call->done = true;
    call->answer = call->stream ? stream_error(answer) : std::move(answer);
    give_answer(*call);
    if (call->key.empty()) return;
    kept_answers_.push_back(call->key);
    kept_bytes_ += call->answer.body.size();
    while (kept_answers_.size() > max_kept_answers || kept_bytes_ > max_kept_bytes) {
        const auto first = calls_.find(kept_answers_.front());
        kept_answers_.pop_front();
        if (first == calls_.end()) continue;
        kept_bytes_ -= first->second->answer.body.size();
        calls_.erase(first);
    }
}

void Front::give_answer(RexCall& call) {
    for (const std::uint64_t number : std::exchange(call.clients, {})) {
        const std::shared_ptr<Connection> client = connection(number);
        if (!client) continue;
        if (client->streams) {  // a cell that has begun
            send_piece(*client, "", cell_over(call.answer.body));
            end_stream(*client);
            continue;
        }
        const bool json = call.answer.type == "application/json";
        static_cast<void>(
            answer(*client, call.answer.status, call.answer.body + (json ? "\n" : ""), call.answer.type));
        if (number == taking_) continue;  // its caller goes on with what it sent
        take(*client);
        advance(*client);
    }
}

void Front::take_session_output(const std::string& name, std::string_view text) {
    const auto found = sessions_.find(name);
    if (found == sessions_.end() || found->second.over) return;
    RexSession& session = found->second;
    std::size_t begin = 0, from = session.output.size();  // before which no line ends
    session.output += text;
    for (std::size_t end = 0; (end = session.output.find('\n', from)) != std::string::npos;
         begin = from = end + 1) {
        if (session.calls.empty()) continue;
        const std::shared_ptr<RexCall> call = session.calls.front();
        const std::string_view line = std::string_view(session.output).substr(begin, end - begin);
        if (call->cell != 0 && !give_line(*call, line)) continue;
        session.calls.pop_front();
        if (call->cell != 0) continue;
        if (!call->e2b) {
            complete(call, rex_action_answer(line));
            continue;
        }
        complete(call, context_answer(line, session.context));
        if (call->answer.status == 200) session.shown = call->answer.body;
    }
    session.output.erase(0, begin);
    if (session.output.empty()) session.output.shrink_to_fit();
    if (session.output.size() > max_unread) bound_lines(session);
}

void Front::bound_lines(RexSession& session) {
    RexSession* longest = &session;
    std::size_t all = 0;
    for (auto& [name, one] : sessions_) {
        all += one.output.size();
        if (one.output.size() > longest->output.size()) longest = &one;
    }
    if (longest->output.size() <= max_session_line && all <= max_session_lines) return;
    longest->output.clear();
    longest->output.shrink_to_fit();
    longest->over = true;
    end_session(*longest);
}

void Front::call_ended(const InFlight& job, std::string_view job_answer) {
    if (job.session.empty())
        return complete(job.call, job.call->e2b ? file_answer(job_answer) : rex_answer(job_answer));
    const auto found = sessions_.find(job.session);
    if (found == sessions_.end()) return;
    const RexSession session = std::move(found->second);
    sessions_.erase(found);
    for (const auto& call : session.calls)
        complete(call, call->e2b ? context_end(job_answer) : rex_session_end(job_answer));
    for (const auto& call : session.closers)
        complete(call, call->e2b ? context_removed(job_answer) : rex_closed(job_answer));
    if (has_rex_sessions()) return;
    for (const auto& call : std::exchange(close_calls_, {})) complete(call, {200, "{}"});
}

/// The tree ends at once: a command that runs may never end by itself.
void Front::end_session(const RexSession& session) {
    to_server_.add("{\"cancel\":" + std::to_string(session.job) + ",\"now\":true}\n");
}

void Front::close_sessions(const std::shared_ptr<RexCall>& call) {
    for (const auto& [name, session] : sessions_)
        if (!call || session.context.empty()) end_session(session);
    if (call && !has_rex_sessions()) return complete(call, {200, "{}"});
    if (call) close_calls_.push_back(call);
}

bool Front::has_rex_sessions() const {
    return std::ranges::any_of(sessions_, [](const auto& one) { return one.second.context.empty(); });
}

void Front::take_input_answer(std::string_view line) {
    const json_read::json told = json_read::parse_object(line);
    const auto found = inputs_.find(json_read::number(json_read::member(told, "id")));
    if (found == inputs_.end()) return;
    const InputWait wait = std::move(found->second);
    inputs_.erase(found);
    in_flight_bytes_ -= wait.size;
    const std::string why = json_read::text(json_read::member(told, "error"));
    if (wait.call && wait.session.empty())  // input for a process of E2B's
        return complete(wait.call, why.empty() ? RexAnswer{200, "{}"} : e2b_error("not_found", why));
    if (wait.call) {
        if (why.empty()) return;
        if (const auto session = sessions_.find(wait.session); session != sessions_.end())
            std::erase(session->second.calls, wait.call);
        if (wait.call->e2b) return complete(wait.call, e2b_error("unavailable", why));
        return complete(wait.call, why.find("16 MiB") != std::string::npos
                                       ? refusal(503, why)
                                       : rex_exception("SwerexException", why));
    }
    const std::shared_ptr<Connection> client = connection(wait.connection);
    if (!client) return;
    const RexAnswer told_it = why.empty() ? RexAnswer{200, "{\"written\":true}"} : refusal(422, why);
    static_cast<void>(answer(*client, told_it.status, told_it.body + '\n'));
    take(*client);
    advance(*client);
}

void Front::start_input(Connection& one, std::string_view body) {
    const std::uint64_t own = next_job_++;
    const auto line = pass_input_on(body, one.input_job, own);
    if (const auto* const fault = std::get_if<Fault>(&line)) return refuse_job(one, {400, fault->why});
    hand_input_on(own, {one.number, nullptr, {}}, std::get<std::string>(line));
    one.phase = Phase::busy;
    one.deadline = Clock::time_point::max();
}

}  // namespace callgate::jobs::http
