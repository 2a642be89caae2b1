// Writes one JSON value into a buffer, front to back.
//
// The writer owns nothing: the buffer outlives it. The writer puts the commas; the caller ends each object
// and list that it began. An attacker may control every byte of a text: `append_json_string` escapes it.
// Names of members are callgate's own words and are written as they are.
#pragma once

#include <concepts>
#include <optional>
#include <ranges>
#include <string>
#include <string_view>
#include <utility>

#include "base/buffer.hpp"
#include "base/escape.hpp"

namespace callgate {

class JsonWriter {
public:
    explicit JsonWriter(Buffer& out) : out_(out) {}
    JsonWriter(const JsonWriter&) = delete;
    JsonWriter& operator=(const JsonWriter&) = delete;

    JsonWriter& begin_object() { return open('{'); }
    JsonWriter& begin_object(std::string_view name) { return key(name).begin_object(); }
    JsonWriter& end_object() { return close('}'); }
    JsonWriter& begin_list() { return open('['); }
    JsonWriter& begin_list(std::string_view name) { return key(name).begin_list(); }
    JsonWriter& end_list() { return close(']'); }

    /// Writes the name of the member whose value comes next.
    JsonWriter& key(std::string_view name);
    /// The buffer, for a caller that appends one whole value itself in a format of its own.
    [[nodiscard]] Buffer& slot();
    /// Begins a line with the next member or element.
    JsonWriter& new_line();

    JsonWriter& null() { return raw("null"); }
    /// `json` is one whole value.
    JsonWriter& raw(std::string_view json);
    JsonWriter& value(std::string_view text);
    template <std::integral Number>
    JsonWriter& value(Number number) {
        if constexpr (std::same_as<Number, bool>) {
            slot() << (number ? "true" : "false");
        } else {
            slot() << number;
        }
        return *this;
    }
    /// Writes null if `perhaps` is empty.
    template <class Value>
    JsonWriter& value(const std::optional<Value>& perhaps) {
        return perhaps ? value(*perhaps) : null();
    }
    /// Writes a list of texts or numbers.
    template <std::ranges::input_range Values>
    requires(!std::convertible_to<const Values&, std::string_view>) JsonWriter& value(const Values& values) {
        begin_list();
        for (const auto& one : values) value(one);
        return end_list();
    }

    template <class Value>
    JsonWriter& member(std::string_view name, const Value& its) {
        return key(name).value(its);
    }
    /// Writes null for an empty text.
    JsonWriter& text_or_null(std::string_view name, std::string_view text);
    /// Writes `NAME` as text. It also writes `NAME_b64` if the bytes are not UTF-8 and the text cannot
    /// restore them. Otherwise `NAME_b64` is left out, or null if `always` is true.
    JsonWriter& bytes(std::string_view name, std::string_view bytes, bool always = false);
    /// Writes a list; `each` writes one element.
    template <class Values, class Each>
    JsonWriter& list(std::string_view name, const Values& values, Each each) {
        key(name);
        return list(values, std::move(each));
    }
    template <class Values, class Each>
    JsonWriter& list(const Values& values, Each each) {
        begin_list();
        for (const auto& one : values) each(one);
        return end_list();
    }

private:
    JsonWriter& open(char bracket);
    JsonWriter& close(char bracket);

    Buffer& out_;
    bool first_ = true;  // no comma stands before the next value
};

/// The text that `write` writes.
template <class Write>
[[nodiscard]] std::string json_text(Write write) {
    Buffer out(1024);
    JsonWriter json(out);
    write(json);
    return std::string(out.view());
}

}  // namespace callgate
