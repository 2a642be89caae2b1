#include "supervisor/jobs/http/fusion_script.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/escape.hpp"
#include "base/json_read.hpp"
#include "supervisor/jobs/strict_json.hpp"

namespace callgate::jobs::http {

using nlohmann::json;

namespace {

/// A path that no program takes for an option.
std::string path_word(const std::string& name) { return word(name.starts_with('/') ? name : "./" + name); }

}  // namespace

json given(const json& request, const char* name, const json& otherwise) {
    const json& value = json_read::member(request, name);
    return value.is_null() ? otherwise : value;
}

std::string text_of(const json& request, const char* name) {
    const json value = given(request, name, "");
    if (!value.is_string()) throw InvalidRequest{std::string(name) + ": expected a text"};
    std::string text = value.get<std::string>();
    if (text.find('\0') != std::string::npos)
        throw InvalidRequest{std::string(name) + ": holds a NUL character (U+0000)"};
    return text;
}

std::int64_t milliseconds_of(const json& request, const char* name, int usual) {
    constexpr double longest = 86'400;
    const json value = given(request, name, usual);
    if (!value.is_number() || !(value.get<double>() > 0 && value.get<double>() <= longest))
        throw InvalidRequest{std::string(name) + ": expected seconds above 0, at most 86400"};
    return std::max<std::int64_t>(1, static_cast<std::int64_t>(value.get<double>() * 1000));
}

std::string word(std::string_view text) {
    std::string made = "'";
    for (const char one : text) one == '\'' ? made += "'\\''" : made += one;
    return made + '\'';
}

std::string in_seconds(std::int64_t ms) {
    std::string rest = std::to_string(ms % 1000);
    return std::to_string(ms / 1000) + '.' + std::string(3 - rest.size(), '0') + rest;
}

std::string files_written(const json& request) {
    std::string made;
    const json files = given(request, "files", json::object());
    if (!files.is_object()) throw InvalidRequest{"files: expected an object of names and base64"};
    for (const auto& [name, content] : files.items()) {
        if (content.is_null()) continue;
        const auto bytes =
            content.is_string() ? decode_base64(content.get_ref<const std::string&>()) : std::nullopt;
        if (!bytes || name.empty() || name.find('\0') != std::string::npos)
            throw InvalidRequest{"files: expected base64 for " + json_string(name)};
        Buffer encoded;
        append_base64(encoded, *bytes);
        if (const std::size_t slash = name.rfind('/'); slash != std::string::npos && slash > 0)
            made += "mkdir -p " + path_word(name.substr(0, slash)) + " || exit 125\n";
        made +=
            "base64 -d > " + path_word(name) + " <<'.' || exit 125\n" + std::string(encoded.view()) + "\n.\n";
    }
    return made;
}

std::vector<std::string> fetched(const json& request) {
    std::vector<std::string> names;
    const json wanted = given(request, "fetch_files", json::array());
    if (!wanted.is_array()) throw InvalidRequest{"fetch_files: expected a list of paths"};
    for (const json& one : wanted) {
        if (!one.is_string() || one.get<std::string>().find('\0') != std::string::npos)
            throw InvalidRequest{"fetch_files: expected a list of paths"};
        names.push_back(one.get<std::string>());
    }
    return names;
}

std::string fetching(const FusionJob& made) {
    std::string text = "status=$?\nprintf '\\n" + made.mark + "\\n'\n";
    for (std::size_t number = 0; number < made.fetched.size(); ++number) {
        const std::string path = path_word(made.fetched[number]);
        text += "[ ! -f " + path + " ] || { printf '" + std::to_string(number) + " '; base64 -w0 < " + path +
                "; echo; }\n";
    }
    return text + "exit \"$status\"\n";
}

}  // namespace callgate::jobs::http
