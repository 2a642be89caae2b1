// JSON for `--json`: built front to back, strings escaped as in the audit log (safe on a terminal).
#pragma once

#include <concepts>
#include <string>
#include <string_view>

#include "base/escape.hpp"

namespace callgate::cli {

  // bytes that are not UTF-8 become \xNN: enough for people's names

/// ["a","b"]
template <class Strings>
[[nodiscard]] std::string json_list(const Strings& strings) {
    std::string text = "[";
    for (const auto& one : strings) text += (text.size() > 1 ? "," : "") + json_string(one);
    return text + "]";
}

class JsonObject {
public:
    JsonObject& raw(std::string_view key, std::string_view value) {
        text_ += (text_.size() > 1 ? "," : "") + json_string(key) + ":" + std::string(value);
        return *this;
    }
    JsonObject& add(std::string_view key, std::string_view value) { return raw(key, json_string(value)); }
    JsonObject& add(std::string_view key, const char* value) { return raw(key, json_string(value)); }
    template <std::integral Number>
    JsonObject& add(std::string_view key, Number value) {
        if constexpr (std::same_as<Number, bool>)
            return raw(key, value ? "true" : "false");
        else
            return raw(key, std::to_string(value));
    }
    [[nodiscard]] std::string text() const { return text_ + "}"; }

private:
    std::string text_ = "{";
};

/// Objects, already as text, in a list.
template <class Texts>
[[nodiscard]] std::string json_array(const Texts& texts) {
    std::string text = "[";
    for (const std::string& one : texts) text += (text.size() > 1 ? "," : "") + one;
    return text + "]";
}

}  // namespace callgate::cli
