// Jobs from stdin, answers to stdout: one of each, or many at once (`callgate exec`, `--serve`).
//
// Owns the executions. Everything happens on the caller's thread, but for reading and writing what is large
// or must wait for others, which have a thread each: no job waits for another, for a large request, or for
// whoever reads.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "supervisor/jobs/answers.hpp"
#include "supervisor/jobs/execution.hpp"
#include "supervisor/jobs/requests.hpp"

namespace callgate::jobs {

enum class End : std::uint8_t {
    good,       // every job was answered
    no_job,     // of one job: nothing ran
    unwritten,  // nobody was there to read the answers
};

/// Called on the main thread, before there is any other, at most one of them once per process. SIGTERM,
/// SIGINT and SIGHUP end the jobs. Throws std::exception where the loop cannot be made.
[[nodiscard]] End run_one(const std::string& text, const Settings& settings);
/// Until the end of stdin and of all jobs; at most `most` run at a time.
[[nodiscard]] End serve(const Settings& settings, std::size_t most);

}  // namespace callgate::jobs
