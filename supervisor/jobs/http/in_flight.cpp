#include "supervisor/jobs/http/front_process.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/number.hpp"
#include "supervisor/jobs/http/programs.hpp"
#include "supervisor/jobs/job.hpp"
#include "supervisor/jobs/server.hpp"

namespace callgate::jobs::http {

void Front::start_job(Connection& one) {
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
        put(one, stream_head());
    }
    put(one, stream_event(event, data));
    if (event != "answer") advance(one);
}

}  // namespace callgate::jobs::http
