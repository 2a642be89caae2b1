// SandboxFusion's POST /run_code and /run_jupyter: a request as one job, and the job's answer as its
// response.
//
// The job is a shell script that works in the run's private directory. It writes the files and the code
// there, compiles if the language needs it, and runs. What the compiler wrote, and the files that the request
// asks for, go to standard output around what the program writes, between marks. The cells of a notebook run
// one after the other in one interpreter, IPython's.
//
// The sender controls every member: names and contents become single-quoted words or base64. The code that
// runs could find out the mark and print it. It then tells a lie about its own files, in its own answer.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "supervisor/jobs/http/request.hpp"

namespace callgate::jobs::http {

/// The answer of the job is read with this.
struct FusionJob {
    std::string job;   // JSON without an id
    std::string mark;  // stands around what the script adds to standard output; "" where it adds nothing
    bool compiled = false, notebook = false;
    std::int64_t compile_ms = 0, run_ms = 0;  // the limits
    std::vector<std::string> fetched;         // names of files
};

/// The programs that languages need.
[[nodiscard]] std::vector<std::string_view> fusion_programs();

/// `has` says whether this machine has a program of that name. Refused: 400 where the request is wrong, 501
/// where it asks for what is not offered.
[[nodiscard]] std::variant<Refused, FusionJob> fusion_job(std::string_view body, std::string mark,
                                                          bool (*has)(std::string_view program));

/// The same for a notebook.
[[nodiscard]] std::variant<Refused, FusionJob> notebook_job(std::string_view body, std::string mark,
                                                            bool (*has)(std::string_view program));

/// `answer` is the server's, without an id.
[[nodiscard]] std::string fusion_answer(const FusionJob& job, std::string_view answer);

}  // namespace callgate::jobs::http
