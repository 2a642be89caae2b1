#include "supervisor/jobs/http/e2b.hpp"
#include "supervisor/jobs/http/front_process.hpp"

#include <utility>

namespace callgate::jobs::http {

std::optional<Refused> Front::route(Connection& one) {
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
    one.e2b.clear();
    one.streamed = 0;
    one.rex = is_rex_path(path) ? path : "";
    const auto input = input_paths_.find(std::string(path));
    one.input_job = input == input_paths_.end() ? 0 : input->second;
    if (is_e2b_path(path)) return route_e2b(one, path);
    if (path == "/is_alive" && reads) return answer(one, 200, "{\"is_alive\":true,\"message\":\"\"}\n");
    if (path.starts_with("/v1/jobs/") && one.input_job == 0)
        return Refused{404, "no job that runs has this path for input"};
    if (path != "/v1/jobs" && one.fusion == nullptr && one.rex.empty() && one.input_job == 0)
        return Refused{404,
                       "known: POST /v1/jobs, /run_code and /run_jupyter, GET /healthz and /metrics, and "
                       "SWE-ReX's and E2B's requests"};
    if (one.head.method != "POST") return Refused{405, "a job is sent by POST"};
    return begin_body(one);
}

std::optional<Refused> Front::begin_body(Connection& one) {
    if (auto refused = access_.check_type(one.head)) return refused;
    if (!one.head.framed) return Refused{411, "the body has no Content-Length"};
    if (const auto id = one.head.field("x-request-id"); id && id->size() > 256)
        return Refused{400, "X-Request-ID is longer than 256 bytes"};
    if (draining_ && one.input_job == 0) return Refused{503, "the service is ending, and takes no more jobs"};
    if (is_full()) return Refused{503, "too many jobs wait"};
    one.body.emplace(one.head);
    one.phase = Phase::body;
    one.deadline = now_ + body_time;
    if (one.head.expects_continue) put(one, "HTTP/1.1 100 Continue\r\n\r\n");
    if (one.body->whole() && (one.rex == "/close" || !one.e2b.empty()))
        start_job(one);
    else if (one.body->whole())
        return Refused{400, "the job is empty"};
    return std::nullopt;
}

std::optional<Refused> Front::answer_health(Connection& one) {
    return draining_ ? answer(one, 503, "{\"status\":\"draining\"}\n")
                     : answer(one, 200, "{\"status\":\"ok\"}\n");
}

std::optional<Refused> Front::answer(Connection& one, int status, std::string_view body,
                                     std::string_view type) {
    ++counts_.responses[status];
    put(one, response(status, body, one.closes, type));
    become_idle(one);
    return std::nullopt;
}

bool Front::refuse(Connection& one, const Refused& why) {
    ++counts_.responses[why.status];
    one.closes = true;
    put(one, error_response(why.status, why.why, true));
    become_idle(one);
    return false;
}

void Front::become_idle(Connection& one) {
    release_body(one);
    one.phase = Phase::head;
    one.job = 0;
    one.done = one.closes;
    one.deadline = now_ + (one.in.empty() ? idle_time : head_time);
}

}  // namespace callgate::jobs::http
