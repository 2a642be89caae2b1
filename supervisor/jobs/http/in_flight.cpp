#include "supervisor/jobs/http/front_process.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/escape.hpp"
#include "base/json_read.hpp"
#include "base/number.hpp"
#include "base/sha256.hpp"
#include "supervisor/jobs/http/e2b.hpp"
#include "supervisor/jobs/http/programs.hpp"
#include "supervisor/jobs/job.hpp"
#include "supervisor/jobs/server.hpp"

namespace callgate::jobs::http {

bool Front::is_full() const {
    return in_flight_.size() >= settings_.jobs + max_waiting_jobs || in_flight_bytes_ >= max_bodies;
}

/// The server reads all of it at once, so that input and the end of a job wait for no other job.
void Front::hand_on(std::uint64_t number, InFlight job, std::string_view line) {
    to_server_.add(line);
    job.size = line.size();
    in_flight_bytes_ += job.size;
    job.began = now_;
    in_flight_.emplace(number, std::move(job));
    ++counts_.jobs;
}

void Front::hand_input_on(std::uint64_t own, InputWait wait, std::string_view line) {
    to_server_.add(line);
    wait.size = line.size();
    in_flight_bytes_ += wait.size;
    inputs_.emplace(own, std::move(wait));
}

void Front::start_job(Connection& one) {
    const std::uint64_t number = next_job_++;
    InFlight job;
    std::string text = std::move(one.body->bytes());
    release_body(one);
    if (one.input_job != 0) return start_input(one, text);
    if (is_full()) return refuse_job(one, {503, "too many jobs wait"});  // others came while the body did
    if (!one.rex.empty() || !one.e2b.empty()) return start_call(one, text);
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
    if (good.stdin_open && !good.stream)
        return refuse_job(one,
                          {400, "stdin_open: needs stream here, whose first event names the path for input"});
    if (good.stdin_open)
        job.input_path = "/v1/jobs/" + sha256_hex(secret_ + std::to_string(number)).substr(0, 32) + "/input";
    job.connection = one.number;
    one.job = number;
    if (job.stream) one.streamed = number;
    one.phase = Phase::busy;
    one.deadline = Clock::time_point::max();
    if (!job.input_path.empty()) {
        input_paths_.emplace(job.input_path, number);
        send_event(one, "job", "{\"input\":" + json_string(job.input_path) + '}');
    }
    hand_on(number, std::move(job), good.line);
}

void Front::refuse_job(Connection& one, const Refused& why) {
    ++counts_.refused;
    ++counts_.responses[why.status];
    put(one, error_response(why.status, why.why, one.closes));
    become_idle(one);
}

void Front::take_line(std::string_view line) {
    constexpr std::string_view id = "{\"id\":", streams = "\"stream\":\"", fails = "\"error\":";
    if (line == drain_line.substr(0, drain_line.size() - 1)) {
        draining_ = true;
        return close_sessions(nullptr);
    }
    if (line.starts_with("{\"input\":")) return take_input_answer(line);
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
        if (const std::string& session = found->second.session; !session.empty()) {
            const auto piece = json_read::parse_object('{' + std::string(line));
            if (output == "output")
                take_session_output(session, json_read::text(json_read::member(piece, "text")));
            return;
        }
        if (client && !found->second.process.empty()) {
            send_piece(*client, "", output_event(output, '{' + std::string(line)));
            advance(*client);
        } else if (client) {
            send_event(*client, output, '{' + std::string(line));
        }
        return;
    }
    InFlight job = std::move(found->second);
    in_flight_.erase(found);
    in_flight_bytes_ -= job.size;
    input_paths_.erase(job.input_path);
    counts_.job_seconds += std::chrono::duration<double>(now_ - job.began).count();
    if (job.call) return call_ended(job, '{' + std::string(line));
    if (client && !job.process.empty()) {
        send_piece(*client, "", end_events('{' + std::string(line)));
        return end_stream(*client);
    }
    if (client) answer_job(*client, job, line, line.starts_with(fails) ? 422 : 200);
}

std::shared_ptr<Connection> Front::connection(std::uint64_t number) const {
    const auto found = connections_.find(number);
    return found == connections_.end() ? nullptr : found->second;
}

void Front::answer_job(Connection& one, const InFlight& job, std::string_view rest, int status) {
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

void Front::send_event(Connection& one, std::string_view event, std::string_view data) {
    if (!std::exchange(one.streams, true)) {
        ++counts_.responses[200];
        put(one, stream_head("text/event-stream"));
    }
    put(one, stream_event(event, data));
    if (event == "output" || event == "error") advance(one);
}

}  // namespace callgate::jobs::http
