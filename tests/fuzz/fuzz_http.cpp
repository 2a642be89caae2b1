// Fuzzes what a client of `callgate exec --http` sends: ./dev fuzz.
//
// An input is a request, and the same bytes are a body of each kind. Besides memory errors and undefined
// behaviour two things are checked. A head that is taken is written in one way, and a body is the same in
// whatever pieces it comes. A request to /run_code becomes a job that the server takes.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string_view>

#include "supervisor/jobs/http/e2b.hpp"
#include "supervisor/jobs/http/request.hpp"
#include "supervisor/jobs/http/sandbox_fusion.hpp"
#include "supervisor/jobs/job.hpp"
#include "supervisor/jobs/strict_json.hpp"

using namespace callgate;
using namespace callgate::jobs;

namespace {

void require(bool holds, const char* what) {
    if (holds) return;
    std::fprintf(stderr, "does not hold: %s\n", what);
    std::abort();
}

http::Body read_body(const http::Head& head, std::string_view bytes, std::size_t piece, std::size_t& taken) {
    http::Body body(head);
    taken = 0;
    while (taken < bytes.size() && !body.whole() && !body.refused())
        taken += body.take(bytes.substr(taken, piece));
    return body;
}

void check_body(const http::Head& head, std::string_view bytes) {
    std::size_t taken = 0, taken_slowly = 0;
    http::Body whole = read_body(head, bytes, bytes.size(), taken);
    http::Body slow = read_body(head, bytes, 1, taken_slowly);
    require(whole.whole() == slow.whole() && whole.bytes() == slow.bytes() && taken == taken_slowly,
            "a body is the same in whatever pieces it comes");
    require(whole.refused().has_value() == slow.refused().has_value(),
            "a body is refused in whatever pieces");
    require(whole.bytes().size() <= taken, "a body is part of what was sent");
    if (whole.whole() && !head.chunked) require(whole.bytes().size() == head.length, "a body has its length");
}

void check_head(std::string_view text, std::string_view rest) {
    const auto read = http::parse_head(text);
    if (const auto* const refused = std::get_if<http::Refused>(&read)) {
        require(refused->status >= 400 && !refused->why.empty(), "what is refused has a reason");
        return;
    }
    const auto& head = std::get<http::Head>(read);
    require(!http::no_head(text), "a head is what can become one");
    require(!(head.chunked && head.length > 0), "a body has one framing");
    require(head.target.starts_with('/'), "a target is a path");
    std::string again =
        head.method + ' ' + head.target + (head.keeps_open ? " HTTP/1.1\r\n" : " HTTP/1.0\r\n");
    for (const auto& [name, value] : head.fields) again += name + ": " + value + "\r\n";
    const auto reread = http::parse_head(again + "\r\n");
    if (const auto* const other = std::get_if<http::Head>(&reread))
        require(other->length == head.length && other->fields == head.fields && other->target == head.target,
                "a head that is written anew is the same");
    check_body(head, rest);
}

/// Returns what a reader makes of bytes that it takes; "" where it refuses them.
template <class Read>
std::string taken(Read read) {
    try {
        return read();
    } catch (const InvalidRequest& wrong) {
        require(!wrong.why.empty(), "what is refused has a reason");
        return "";
    }
}

void check_e2b(std::string_view bytes) {
    const auto takes = [](const std::string& line) {
        return line.empty() || (nlohmann::json::accept(line) && std::ranges::count(line, '\n') <= 1);
    };
    for (const std::string& body : {std::string(bytes), http::envelope(bytes)}) {
        const std::string job = taken([&body] {
            const http::E2bStart start = http::read_start(body, "1000");
            require(nlohmann::json::accept(start.config), "what is listed is JSON");
            return start.job;
        });
        require(takes(job), "a process becomes a job in JSON");
    }
    require(takes(taken([bytes] { return http::read_cell(bytes, 7).line; })), "a cell is one line");
    require(takes(taken([bytes] { return http::context_job(http::context_directory(bytes)); })),
            "a context is a job");
    require(takes(taken([bytes] { return http::made_sandbox(bytes, "a").body; })), "a sandbox is JSON");
    for (const std::string_view path : {"/process.Process/SendInput", "/process.Process/SendSignal"})
        static_cast<void>(taken([=] { return http::read_process_request(path, bytes).bytes; }));
    for (const http::RexAnswer& answer :
         {http::context_answer(bytes, "a"), http::context_end(bytes), http::context_removed(bytes)})
        require(answer.status >= 200 && takes(answer.body), "an answer is JSON");
    require(takes(http::cell_line(bytes).text), "a line of a cell is one line of JSON");
    const http::RexAnswer file = http::file_answer(bytes);
    require(file.type != "application/json" || takes(file.body), "an answer about files is JSON");
    const std::string events = http::end_events(bytes), piece = http::output_event("output", bytes);
    require(events.size() >= 7 && piece.size() > 5, "events are there");
}

void check_job(std::string_view bytes) {
    for (const auto make : {http::fusion_job, http::notebook_job}) {
        const auto made = make(bytes, "mark", [](std::string_view) { return true; });
        if (const auto* const job = std::get_if<http::FusionJob>(&made))
            require(std::holds_alternative<Job>(parse_request(job->job, Form::once)),
                    "a request to run code becomes a job");
    }
    const std::string answer(bytes);
    for (const bool compiled : {false, true}) {
        http::FusionJob job;
        job.compiled = compiled;
        job.notebook = !compiled;
        job.mark = "m";
        job.fetched = {"a"};
        require(nlohmann::json::accept(http::fusion_answer(job, answer)), "a response is JSON");
        const nlohmann::json told = {
            {"exit_code", 0},
            {"output", nlohmann::json::parse(nlohmann::json(answer).dump(
                           -1, ' ', false, nlohmann::json::error_handler_t::replace))}};
        require(nlohmann::json::accept(http::fusion_answer(job, told.dump())), "a response is JSON");
    }
    check_e2b(bytes);
    const auto passed = pass_on(bytes, 7);
    if (const auto* const good = std::get_if<Passed>(&passed)) {
        require(good->line.ends_with('\n') && std::ranges::count(good->line, '\n') == 1, "a job is one line");
        const Request request = parse_request(good->line, Form::served);
        const auto* const job = std::get_if<Job>(&request);
        require(job != nullptr && job->id == "7", "a job that is passed on has the front's number");
    }
}

}  // namespace

extern "C" int LLVMFuzzerInitialize(int*, char***) { return 0; }

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::string_view text(reinterpret_cast<const char*>(data), size);
    const std::size_t end = text.find("\r\n\r\n");
    if (end != std::string_view::npos) check_head(text.substr(0, end + 4), text.substr(end + 4));
    http::Head chunked;
    chunked.chunked = true;
    check_body(chunked, text);
    check_job(text);
    return 0;
}
