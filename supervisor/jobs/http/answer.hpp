// Answers of the front as HTTP.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

namespace callgate::jobs::http {

/// A whole response. `closes`: it is the connection's last.
[[nodiscard]] std::string response(int status, std::string_view body, bool closes,
                                   std::string_view type = "application/json");
/// The same for `{"error":WHY}`.
[[nodiscard]] std::string error_response(int status, std::string_view why, bool closes);
/// The head of a stream, which ends with its connection.
[[nodiscard]] std::string stream_head(std::string_view type);
/// `data` holds no line break.
[[nodiscard]] std::string stream_event(std::string_view event, std::string_view data);

struct Counts {
    std::map<int, std::uint64_t> responses;  // by status
    std::uint64_t jobs = 0, cancelled = 0, refused = 0;
    double job_seconds = 0;
    std::size_t in_flight = 0, connections = 0;
    bool draining = false;
};
/// In the text format of Prometheus.
[[nodiscard]] std::string metrics(const Counts& counts);

}  // namespace callgate::jobs::http
