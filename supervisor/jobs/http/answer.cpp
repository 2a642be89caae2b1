#include "supervisor/jobs/http/answer.hpp"

#include "base/escape.hpp"

namespace callgate::jobs::http {

namespace {

std::string_view reason(int status) {
    switch (status) {
        case 200:
            return "OK";
        case 201:
            return "Created";
        case 400:
            return "Bad Request";
        case 401:
            return "Unauthorized";
        case 403:
            return "Forbidden";
        case 404:
            return "Not Found";
        case 405:
            return "Method Not Allowed";
        case 408:
            return "Request Timeout";
        case 409:
            return "Conflict";
        case 411:
            return "Length Required";
        case 413:
            return "Content Too Large";
        case 415:
            return "Unsupported Media Type";
        case 417:
            return "Expectation Failed";
        case 421:
            return "Misdirected Request";
        case 422:
            return "Unprocessable Content";
        case 429:
            return "Too Many Requests";
        case 431:
            return "Request Header Fields Too Large";
        case 500:
            return "Internal Server Error";
        case 501:
            return "Not Implemented";
        case 502:
            return "Bad Gateway";
        case 503:
            return "Service Unavailable";
        case 504:
            return "Gateway Timeout";
        case 505:
            return "HTTP Version Not Supported";
        default:
            return "Error";
    }
}

}  // namespace

std::string response(int status, std::string_view body, bool closes, std::string_view type) {
    std::string text = "HTTP/1.1 " + std::to_string(status) + ' ' + std::string(reason(status)) +
                       "\r\nContent-Type: " + std::string(type) +
                       "\r\nContent-Length: " + std::to_string(body.size()) +
                       "\r\nX-Content-Type-Options: nosniff\r\nCache-Control: no-store\r\n";
    if (status == 401) text += "WWW-Authenticate: Bearer\r\n";
    if (status == 503) text += "Retry-After: 1\r\n";
    if (closes) text += "Connection: close\r\n";
    return text.append("\r\n").append(body);
}

std::string error_response(int status, std::string_view why, bool closes) {
    return response(status, "{\"error\":" + json_string(why) + "}\n", closes);
}

std::string stream_head(std::string_view type) {
    return "HTTP/1.1 200 OK\r\nContent-Type: " + std::string(type) +
           "\r\nCache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\n"
           "X-Accel-Buffering: no\r\nConnection: close\r\n\r\n";
}

std::string stream_event(std::string_view event, std::string_view data) {
    return std::string("event: ").append(event).append("\ndata: ").append(data).append("\n\n");
}

std::string metrics(const Counts& counts) {
    std::string text;
    const auto add = [&text](std::string_view name, std::string_view kind, const auto& value) {
        text.append("# TYPE callgate_").append(name).append(" ").append(kind);
        text.append("\ncallgate_").append(name).append(" ").append(std::to_string(value)).append("\n");
    };
    text += "# TYPE callgate_http_responses_total counter\n";
    for (const auto& [status, count] : counts.responses)
        text += "callgate_http_responses_total{code=\"" + std::to_string(status) + "\"} " +
                std::to_string(count) + '\n';
    add("jobs_total", "counter", counts.jobs);
    add("jobs_cancelled_total", "counter", counts.cancelled);
    add("jobs_refused_total", "counter", counts.refused);
    add("job_seconds_total", "counter", counts.job_seconds);
    add("jobs_in_flight", "gauge", counts.in_flight);
    add("http_connections", "gauge", counts.connections);
    add("draining", "gauge", counts.draining ? 1 : 0);
    return text;
}

}  // namespace callgate::jobs::http
