// Fuzzes what a client sends as a job, and the answer to it: ./dev fuzz.
//
// An input is one job, alone and as one of many. Besides memory errors and undefined behaviour two things are
// checked. A refused job has a reason, in one line of JSON that shows nothing on a terminal but itself. An
// accepted job becomes words and variables that execve(2) can take.
#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string_view>

#include "base/escape.hpp"
#include "supervisor/jobs/answer_text.hpp"
#include "supervisor/jobs/command_line.hpp"

using namespace callgate;

namespace {

void require(bool holds, const char* what) {
    if (holds) return;
    std::fprintf(stderr, "does not hold: %s\n", what);
    std::abort();
}

void check_line(std::string_view line) {
    require(line.ends_with('\n'), "an answer ends with a newline");
    line.remove_suffix(1);
    require(terminal_safe(line) == line, "an answer shows nothing but itself");
    require(nlohmann::json::accept(line), "an answer is JSON");
}

void check_job(const jobs::Job& job) {
    const jobs::CommandLine line = jobs::command_line(job, {}, {"PATH=/bin"});
    for (const auto* const all : {&line.words, &line.environment})
        for (const std::string& word : *all)
            require(word.find('\0') == std::string::npos, "a word holds no NUL");
    require(!job.command.empty() && !job.command[0].empty(), "a job has a command");
    jobs::Settings strict;
    strict.policy = "--profile";
    if (const Expected<void> allowed = jobs::check_allowed(job, strict); !allowed)
        check_line(jobs::answer_text(jobs::Fault{job.id, allowed.error().text}, jobs::Form::served));
}

/// The same bytes as a job's output.
void check_output(std::string_view bytes) {
    jobs::JobResult result;
    result.output.bytes = bytes.substr(0, bytes.size() / 2);
    result.output.total = bytes.size() / 2;
    result.error.bytes = bytes.substr(bytes.size() / 2);
    result.error.total = bytes.size();  // cut
    const std::string line = jobs::answer_text(result, false);
    check_line(line);
    const auto read = nlohmann::json::parse(line);
    if (!read.contains("output_base64"))
        require(read["output"] == result.output.bytes, "valid output is the same again");
    else
        require(decode_base64(read["output_base64"].get<std::string>()) == result.output.bytes,
                "base64 gives the bytes back");
}

}  // namespace

extern "C" int LLVMFuzzerInitialize(int*, char***) { return 0; }

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::string_view text(reinterpret_cast<const char*>(data), size);
    for (const jobs::Form form : {jobs::Form::once, jobs::Form::served}) {
        const jobs::Request request = jobs::parse_request(text, form);
        if (const auto* const job = std::get_if<jobs::Job>(&request)) check_job(*job);
        if (const auto* const cancel = std::get_if<jobs::Cancel>(&request))
            check_line(jobs::answer_text(*cancel, true));
        if (const auto* const fault = std::get_if<jobs::Fault>(&request)) {
            require(!fault->why.empty(), "what is wrong has a reason");
            check_line(jobs::answer_text(*fault, form));
        }
    }
    check_output(text);
    return 0;
}
