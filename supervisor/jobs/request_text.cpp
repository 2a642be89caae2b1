#include "supervisor/jobs/request_text.hpp"

#include <functional>
#include <set>
#include <vector>

#include "base/escape.hpp"

namespace callgate::jobs {

namespace {

using nlohmann::json;

constexpr int deepest = 64;

/// Refuses what the parser itself would take: keys that come twice, and depth.
class Strict {
public:
    bool operator()(int depth, json::parse_event_t event, const json& parsed) {
        if (depth > deepest) throw Wrong{"the job is nested too deeply"};
        if (event == json::parse_event_t::object_start) keys_.emplace_back();
        if (event == json::parse_event_t::object_end) keys_.pop_back();
        if (event == json::parse_event_t::key && !keys_.back().insert(parsed.get<std::string>()).second)
            throw Wrong{"the member " + json_string(parsed.get<std::string>()) + " is there twice"};
        return true;
    }

private:
    std::vector<std::set<std::string>> keys_;
};

/// "[json.exception.parse_error.101] parse error at line 1, column 5: ..." without what is its own.
std::string why_no_json(std::string_view what) {
    const std::size_t at = what.find("at line ");
    return "the job is no JSON: " + std::string(at == std::string_view::npos ? what : what.substr(at));
}

}  // namespace

std::string described(const json& value) {
    constexpr std::size_t longest = 60;
    if (value.is_array()) return "a list";
    if (value.is_object()) return "an object";
    std::string text = value.dump();
    if (text.size() > longest) text = text.substr(0, longest) + "...";
    if (value.is_string()) return "the text " + text;
    return value.is_number() ? "the number " + text : text;
}

json parse_text(std::string_view text) {
    if (text.find_first_not_of(" \t\r\n") == std::string_view::npos)
        throw Wrong{
            "the job is empty; expected one JSON object such as "
            "{\"language\":\"python\",\"code\":\"print(1)\"}"};
    json value;
    try {
        Strict strict;
        value = json::parse(text.begin(), text.end(), std::ref(strict));
    } catch (const json::parse_error& error) {
        throw Wrong{why_no_json(error.what())};
    } catch (const json::exception& error) {  // a number beyond all numbers
        throw Wrong{std::string("the job is no JSON: ") + error.what()};
    }
    if (!value.is_object()) throw Wrong{"the job is " + described(value) + "; expected an object"};
    return value;
}

}  // namespace callgate::jobs
