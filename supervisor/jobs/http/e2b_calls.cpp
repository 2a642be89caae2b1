#include <utility>

#include "base/escape.hpp"
#include "base/sha256.hpp"
#include "supervisor/jobs/http/e2b.hpp"
#include "supervisor/jobs/http/front_process.hpp"
#include "supervisor/jobs/http/programs.hpp"
#include "supervisor/jobs/job.hpp"
#include "supervisor/jobs/strict_json.hpp"

namespace callgate::jobs::http {

namespace {

constexpr std::string_view lines = "application/x-ndjson", messages = "application/connect+json";
constexpr std::size_t max_queued_cells = 100;

std::string sandbox_of(const Connection& one) {
    return std::string(one.head.field("e2b-sandbox-id").value_or(""));
}

/// The keys of SWE-ReX's sessions begin with another byte.
std::string key_of(const std::string& sandbox, const std::string& context) {
    return '\xff' + sandbox + '\n' + context;
}

}  // namespace

std::optional<Refused> Front::route_e2b(Connection& one, std::string_view path) {
    if (auto refused = access_.check_type(one.head)) return refused;
    const auto sandbox = one.head.field("e2b-sandbox-id");
    auto why = not_offered(one.head, path);
    if (!why && !has_program("python3") && !path.starts_with("/process."))
        why = "this needs the program python3, which this machine does not have";
    if (why || (sandbox && sandbox->size() > 128)) {
        one.closes = true;  // the body is not read
        RexAnswer told = why ? e2b_error("unimplemented", *why)
                             : e2b_error("invalid_argument", "E2b-Sandbox-Id is longer than 128 bytes");
        if (has_stream(one.head)) told = stream_error(told);
        return answer(one, told.status, told.body, told.type);
    }
    if (path == "/health") return answer(one, draining_ ? 503 : 200, "{}\n");
    one.e2b = path;
    if (one.head.method == "POST") return begin_body(one);
    if (one.head.chunked || one.head.length > 0) return Refused{400, "this request has no body"};
    if (draining_) return Refused{503, "the service is ending, and takes no more jobs"};
    if (is_full()) return Refused{503, "too many jobs wait"};
    start_call(one, "");
    return std::nullopt;
}

void Front::carry_out_e2b(Connection& one, const std::shared_ptr<RexCall>& call, const std::string& body) {
    const std::string& path = one.e2b;
    if (path == "/process.Process/Start") return start_process(one, call, body);
    if (path == "/process.Process/List") {
        static_cast<void>(parse_strictly(body));
        return complete(call, list_processes(sandbox_of(one)));
    }
    if (path.starts_with("/process.")) return ask_process(one, call, body);
    if (path.starts_with("/contexts")) return serve_contexts(one, call, body);
    if (path.starts_with("/sandboxes/")) {
        remove_sandbox(path.substr(path.rfind('/') + 1));
        return complete(call, {200, "{}"});
    }
    if (path.ends_with("/sandboxes"))
        return complete(
            call, made_sandbox(body, sha256_hex(secret_ + "sandbox " + std::to_string(one.number) + ' ' +
                                                std::to_string(next_job_++))
                                         .substr(0, 20)));
    start_rex_job(one, call, file_job(one.head, path, body), "");
}

void Front::start_process(Connection& one, const std::shared_ptr<RexCall>& call, const std::string& body) {
    const E2bStart asked = read_start(body, one.head.field("connect-timeout-ms").value_or(""));
    const std::uint64_t number = next_job_++;
    auto passed = pass_on(asked.job, number);
    if (const auto* const fault = std::get_if<Fault>(&passed))
        return complete(call, e2b_error("invalid_argument", fault->why));
    InFlight job;
    job.connection = one.number;
    job.process = asked.config;
    job.sandbox = sandbox_of(one);
    one.job = one.streamed = number;
    hand_on(number, std::move(job), std::get<Passed>(passed).line);
    send_piece(one, messages, start_event(number));
}

void Front::ask_process(Connection& one, const std::shared_ptr<RexCall>& call, const std::string& body) {
    const E2bProcessRequest asked = read_process_request(one.e2b, body);
    const auto found = in_flight_.find(asked.process);
    if (found == in_flight_.end() || found->second.process.empty() ||
        found->second.sandbox != sandbox_of(one))
        return complete(call,
                        e2b_error("not_found", "no process " + std::to_string(asked.process) + " runs"));
    const std::string number = std::to_string(asked.process);
    if (one.e2b.ends_with("/SendSignal")) {
        to_server_.add("{\"cancel\":" + number + (asked.kills ? ",\"now\":true}\n" : "}\n"));
        return complete(call, {200, "{}"});
    }
    const bool ends = one.e2b.ends_with("/CloseStdin");
    const std::uint64_t own = next_job_++;
    hand_input_on(own, {0, call, {}},
                  "{\"input\":" + number + ",\"id\":" + std::to_string(own) +
                      (ends ? ",\"end\":true}\n" : ",\"base64\":\"" + asked.bytes + "\"}\n"));
}

RexAnswer Front::list_processes(const std::string& sandbox) const {
    std::string all;
    for (const auto& [number, job] : in_flight_)
        if (!job.process.empty() && job.sandbox == sandbox)
            all += (all.empty() ? "" : ",") + ("{\"pid\":" + std::to_string(number)) +
                   ",\"config\":" + job.process + '}';
    return {200, "{\"processes\":[" + all + "]}"};
}

void Front::serve_contexts(Connection& one, const std::shared_ptr<RexCall>& call, const std::string& body) {
    const std::string sandbox = sandbox_of(one);
    if (one.head.method == "POST") {
        const std::string directory = context_directory(body);
        const std::string id = sha256_hex(secret_ + "context " + std::to_string(next_job_)).substr(0, 32);
        static_cast<void>(start_context(one, call, id, directory));
        return;
    }
    if (one.head.method == "GET") {
        const std::string first = key_of(sandbox, "");
        std::string all;
        for (auto at = sessions_.lower_bound(first); at != sessions_.end() && at->first.starts_with(first);
             ++at)
            if (!at->second.shown.empty()) all += (all.empty() ? "" : ",") + at->second.shown;
        return complete(call, {200, '[' + all + ']'});
    }
    const auto found = sessions_.find(key_of(sandbox, one.e2b.substr(one.e2b.rfind('/') + 1)));
    if (found == sessions_.end()) return complete(call, e2b_error("not_found", "no such context"));
    found->second.closers.push_back(call);
    end_session(found->second);
}

bool Front::start_context(Connection& one, const std::shared_ptr<RexCall>& call, const std::string& id,
                          const std::string& directory) {
    if (sessions_.size() + 1 >= settings_.jobs) {
        complete(call, e2b_error("resource_exhausted",
                                 "too many contexts: each is one of the jobs that run (--jobs), and one "
                                 "place is kept"));
        return false;
    }
    const std::string key = key_of(sandbox_of(one), id);
    start_rex_job(one, call, context_job(directory), key);
    const auto made = sessions_.find(key);
    if (made == sessions_.end()) return false;
    made->second.context = id;
    return true;
}

void Front::start_cell(Connection& one, const std::shared_ptr<RexCall>& call, const std::string& body) {
    if (!call->key.empty())
        throw Unoffered{"X-Request-ID is not kept for code, whose output is passed on as it comes"};
    const std::uint64_t own = next_job_++;
    const E2bCell cell = read_cell(body, own);
    const std::string id = cell.context.empty() ? "default" : cell.context;
    auto found = sessions_.find(key_of(sandbox_of(one), id));
    if (found == sessions_.end() && cell.context.empty()) {
        const auto first = std::make_shared<RexCall>();  // nobody waits for the first line
        first->e2b = true;
        if (!start_context(one, first, id, ".")) return complete(call, first->answer);
        found = sessions_.find(key_of(sandbox_of(one), id));
    }
    if (found == sessions_.end() || !found->second.closers.empty())
        return complete(call, e2b_error("not_found", "no such context"));
    if (found->second.calls.size() > max_queued_cells)
        return complete(call, e2b_error("resource_exhausted", "100 cells wait in this context"));
    call->cell = own;
    one.streamed = found->second.job;
    hand_line_on(own, call, *found, cell.line);
}

bool Front::give_line(RexCall& call, std::string_view line) {
    const E2bLine told = cell_line(line);
    for (const std::uint64_t number : call.clients) {
        const std::shared_ptr<Connection> client = connection(number);
        if (!client || told.text.empty()) continue;
        send_piece(*client, lines, told.text);
        if (told.last)
            end_stream(*client);
        else
            advance(*client);
    }
    call.done = told.last;
    return told.last;
}

void Front::interrupt_cells(std::uint64_t connection) {
    for (const auto& [key, session] : sessions_)
        for (const auto& call : session.calls)
            if (call->cell != 0 && call->clients.front() == connection)
                to_server_.add("{\"input\":" + std::to_string(session.job) +
                               ",\"id\":" + std::to_string(next_job_++) +
                               ",\"text\":\"{\\\"interrupt\\\":" + std::to_string(call->cell) + "}\\n\"}\n");
}

void Front::remove_sandbox(const std::string& sandbox) {
    const std::string first = key_of(sandbox, "");
    for (const auto& [key, session] : sessions_)
        if (key.starts_with(first)) end_session(session);
    for (const auto& [number, job] : in_flight_)
        if (!job.process.empty() && job.sandbox == sandbox)
            to_server_.add("{\"cancel\":" + std::to_string(number) + ",\"now\":true}\n");
}

void Front::send_piece(Connection& one, std::string_view type, std::string_view piece) {
    if (!std::exchange(one.streams, true)) {
        ++counts_.responses[200];
        put(one, stream_head(type));
    }
    put(one, piece);
}

/// Its connection ends with it, which tells the client that the stream is whole.
void Front::end_stream(Connection& one) {
    one.closes = true;
    become_idle(one);
    take(one);
    advance(one);
}

}  // namespace callgate::jobs::http
