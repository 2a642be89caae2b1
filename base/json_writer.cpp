#include "base/json_writer.hpp"

namespace callgate {

Buffer& JsonWriter::slot() {
    if (!std::exchange(first_, false)) out_ << ',';
    return out_;
}

JsonWriter& JsonWriter::open(char bracket) {
    slot() << bracket;
    first_ = true;
    return *this;
}

JsonWriter& JsonWriter::close(char bracket) {
    out_ << bracket;
    first_ = false;
    return *this;
}

JsonWriter& JsonWriter::key(std::string_view name) {
    slot() << '"' << name << "\":";
    first_ = true;
    return *this;
}

JsonWriter& JsonWriter::new_line() {
    slot() << '\n';
    first_ = true;
    return *this;
}

JsonWriter& JsonWriter::raw(std::string_view json) {
    slot() << json;
    return *this;
}

JsonWriter& JsonWriter::value(std::string_view text) {
    append_json_string(slot(), text);
    return *this;
}

JsonWriter& JsonWriter::text_or_null(std::string_view name, std::string_view text) {
    key(name);
    return text.empty() ? null() : value(text);
}

JsonWriter& JsonWriter::bytes(std::string_view name, std::string_view bytes, bool always) {
    const bool valid = append_json_string(key(name).slot(), bytes);
    if (valid && !always) return *this;
    slot() << '"' << name << "_b64\":";
    first_ = true;
    if (valid) return null();
    slot() << '"';
    append_base64(out_, bytes);
    out_ << '"';
    return *this;
}

}  // namespace callgate
