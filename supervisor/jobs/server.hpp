// Reads jobs from stdin and writes answers to stdout: one of each, or many at once (`callgate exec`,
// `--serve`).
//
// Owns the executions. Everything happens on the caller's thread, except that reader and writer each have a
// thread for large texts and for waiting. So no job waits for another, for a large request, or for a reader.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "supervisor/jobs/answer_writer.hpp"
#include "supervisor/jobs/execution.hpp"
#include "supervisor/jobs/request_reader.hpp"

namespace callgate::jobs {

enum class End : std::uint8_t {
    good,       // every job was answered
    no_job,     // of one job: nothing ran
    unwritten,  // nobody read the answers
};

/// Call one of the two, once per process, on the main thread and before there is any other. SIGTERM, SIGINT
/// and SIGHUP end the jobs. Throws std::exception if the loop cannot be made.
[[nodiscard]] End run_one(const std::string& text, const Settings& settings);
/// Returns at the end of stdin and of all jobs. At most `max_jobs` run at a time.
[[nodiscard]] End serve(const Settings& settings, std::size_t max_jobs);

/// A server whose first signal ends no job yet. The line `drain_line` then asks the sender for the end of
/// stdin. After `time`, or after a second signal, the jobs are ended.
struct Drain {
    std::chrono::milliseconds time;
    /// Called once, when signals are waited for; false ends the server.
    std::function<bool()> ready;
};
[[nodiscard]] End serve(const Settings& settings, std::size_t max_jobs, const Drain& drain);
inline constexpr std::string_view drain_line = "{\"drain\":true}\n";

}  // namespace callgate::jobs
