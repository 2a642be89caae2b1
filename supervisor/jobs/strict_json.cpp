#include "supervisor/jobs/strict_json.hpp"

#include <functional>
#include <set>
#include <vector>

#include "base/escape.hpp"
#include "base/json_read.hpp"

namespace callgate::jobs {

using nlohmann::json;

namespace {

constexpr int max_depth = 64;

/// Refuses duplicate keys, great depth and very many values, which the parser itself accepts.
class Strict {
public:
    bool operator()(int depth, json::parse_event_t event, const json& parsed) {
        if (depth > max_depth) throw InvalidRequest{"the job is nested too deeply"};
        if (event == json::parse_event_t::value || event == json::parse_event_t::array_start ||
            event == json::parse_event_t::object_start)
            if (++values_ > json_read::max_values)
                throw InvalidRequest{"the job has more than a million values"};
        if (event == json::parse_event_t::object_start) keys_.emplace_back();
        if (event == json::parse_event_t::object_end) keys_.pop_back();
        if (event == json::parse_event_t::key && !keys_.back().insert(parsed.get<std::string>()).second)
            throw InvalidRequest{"the member " + json_string(parsed.get<std::string>()) + " is there twice"};
        return true;
    }

private:
    std::vector<std::set<std::string>> keys_;
    std::size_t values_ = 0;
};

/// Shortens "[json.exception.parse_error.101] parse error at line 1, column 5: ..." from "at line" on.
std::string why_no_json(std::string_view what) {
    const std::size_t at = what.find("at line ");
    return "the job is no JSON: " + std::string(at == std::string_view::npos ? what : what.substr(at));
}

}  // namespace

std::string described(const json& value) {
    constexpr std::size_t max_shown = 60;
    if (value.is_array()) return "a list";
    if (value.is_object()) return "an object";
    std::string text = value.dump();
    if (text.size() > max_shown) text = text.substr(0, max_shown) + "...";
    if (value.is_string()) return "the text " + text;
    return value.is_number() ? "the number " + text : text;
}

json parse_strictly(std::string_view text) {
    if (text.find_first_not_of(" \t\r\n") == std::string_view::npos)
        throw InvalidRequest{
            "the job is empty; expected one JSON object such as "
            "{\"language\":\"python\",\"code\":\"print(1)\"}"};
    json value;
    try {
        Strict strict;
        value = json::parse(text.begin(), text.end(), std::ref(strict));
    } catch (const json::parse_error& error) {
        throw InvalidRequest{why_no_json(error.what())};
    } catch (const json::exception& error) {  // a number that no type can hold
        throw InvalidRequest{std::string("the job is no JSON: ") + error.what()};
    }
    if (!value.is_object()) throw InvalidRequest{"the job is " + described(value) + "; expected an object"};
    return value;
}

}  // namespace callgate::jobs
