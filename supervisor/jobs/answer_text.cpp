#include "supervisor/jobs/answer_text.hpp"

#include <algorithm>

#include "base/escape.hpp"
#include "base/json_writer.hpp"

namespace callgate::jobs {

namespace {

/// The number of bytes of the character that begins with `lead`; 1 where none begins.
std::size_t length_of(unsigned char lead) {
    if (lead >= 0xC2 && lead <= 0xDF) return 2;
    if (lead >= 0xE0 && lead <= 0xEF) return 3;
    if (lead >= 0xF0 && lead <= 0xF4) return 4;
    return 1;
}

/// Whether `second` can follow `lead` in a character (Unicode 15, table 3-7).
bool continues(unsigned char lead, unsigned char second) {
    if (lead == 0xE0) return second >= 0xA0 && second <= 0xBF;
    if (lead == 0xED) return second >= 0x80 && second <= 0x9F;
    if (lead == 0xF0) return second >= 0x90 && second <= 0xBF;
    if (lead == 0xF4) return second >= 0x80 && second <= 0x8F;
    return second >= 0x80 && second <= 0xBF;
}

/// The length of the longest beginning of `bytes` that is the beginning of a character; at least 1.
std::size_t beginning(std::string_view bytes) {
    const auto at = [&bytes](std::size_t index) { return static_cast<unsigned char>(bytes[index]); };
    const std::size_t length = std::min(length_of(at(0)), bytes.size());
    if (length < 2 || !continues(at(0), at(1))) return 1;
    std::size_t count = 2;
    while (count < length && at(count) >= 0x80 && at(count) <= 0xBF) ++count;
    return count;
}

bool is_plain(char one) {
    const auto byte = static_cast<unsigned char>(one);
    return byte >= 0x20 && byte < 0x7F && one != '"' && one != '\\';
}

void append_escape(Buffer& out, char32_t point) {
    constexpr std::string_view digits = "0123456789abcdef";
    out << "\\u";
    for (int shift = 12; shift >= 0; shift -= 4) out << digits[(point >> static_cast<unsigned>(shift)) & 0xF];
}

/// Hidden characters are escaped.
void append_character(Buffer& out, char32_t point, std::string_view bytes) {
    switch (point) {
        case '\n':
            out << "\\n";
            return;
        case '\t':
            out << "\\t";
            return;
        case '"':
        case '\\':
            out << '\\' << bytes;
            return;
        default:
            break;
    }
    if (!is_hidden(point)) {
        out << bytes;
    } else if (point < 0x10000) {
        append_escape(out, point);
    } else {
        append_escape(out, 0xD800 + ((point - 0x10000) >> 10U));
        append_escape(out, 0xDC00 + ((point - 0x10000) & 0x3FFU));
    }
}

void add_text(JsonWriter& line, std::string_view key, std::string_view text) {
    append_text(line.key(key).slot(), text);
}

/// Adds `KEY`; also the bytes if they are no text, and their number if some were cut.
void add_output(JsonWriter& line, const std::string& key, const Captured& captured) {
    const std::string_view kept = captured.cut() ? whole_characters(captured.bytes) : captured.bytes;
    if (!append_text(line.key(key).slot(), kept)) {
        Buffer& out = line.key(key + "_base64").slot() << '"';
        append_base64(out, kept);
        out << '"';
    }
    if (captured.cut()) line.member(key + "_truncated", true).member(key + "_bytes", captured.total);
}

/// Returns one object with the members that `write` adds, and a newline.
template <class Write>
std::string line_of(std::size_t size, Write write) {
    Buffer out(size);
    JsonWriter line(out);
    line.begin_object();
    write(line);
    line.end_object();
    out << '\n';
    return std::string(out.view());
}

}  // namespace

bool append_text(Buffer& out, std::string_view bytes) {
    bool valid = true;
    out << '"';
    while (!bytes.empty()) {
        const auto stop = std::find_if_not(bytes.begin(), bytes.end(), is_plain);
        const auto plain = static_cast<std::size_t>(stop - bytes.begin());
        out << bytes.substr(0, plain);
        bytes.remove_prefix(plain);
        if (bytes.empty()) break;
        const Character one = decode_utf8(bytes);
        const std::size_t taken = one.length > 0 ? one.length : beginning(bytes);
        if (one.length > 0)
            append_character(out, one.point, bytes.substr(0, taken));
        else
            out << "\uFFFD";
        valid = valid && one.length > 0;
        bytes.remove_prefix(taken);
    }
    out << '"';
    return valid;
}

std::string_view whole_characters(std::string_view bytes) {
    for (std::size_t last = 1; last <= std::min<std::size_t>(3, bytes.size()); ++last) {
        const std::string_view end = bytes.substr(bytes.size() - last);
        const auto lead = static_cast<unsigned char>(end.front());
        if (lead >= 0x80 && lead < 0xC0) continue;
        const bool cut = length_of(lead) > last && beginning(end) == last;
        return cut ? bytes.substr(0, bytes.size() - last) : bytes;
    }
    return bytes;
}

std::string answer_text(const JobResult& result, bool compat) {
    const std::size_t size = result.output.bytes.size() + result.error.bytes.size() + result.report.size();
    return line_of(size + 256, [&](JsonWriter& line) {
        if (!result.id.empty()) line.key("id").raw(result.id);
        if (!result.why.empty()) {
            add_text(line, "error", result.why);
        } else {
            add_output(line, "output", result.output);
            add_output(line, "error", result.error);
            line.member(compat ? "code" : "exit_code", result.exit_status);
        }
        std::string_view report = result.report;
        while (report.ends_with('\n')) report.remove_suffix(1);
        if (!report.empty()) line.key("report").raw(report);
    });
}

std::string answer_text(const Fault& fault, Form form) {
    return line_of(256, [&](JsonWriter& line) {
        if (!fault.id.empty() || form == Form::served)
            line.key("id").raw(fault.id.empty() ? std::string_view("null") : std::string_view(fault.id));
        add_text(line, "error", fault.why);
    });
}

std::string answer_text(const Cancel& cancel, bool found) {
    return line_of(256, [&](JsonWriter& line) { line.key("cancel").raw(cancel.id).member("found", found); });
}

std::string input_answer(const std::string& job, const std::string& id, const std::string& why) {
    return line_of(256, [&](JsonWriter& line) {
        line.key("input").raw(job);
        if (!id.empty()) line.key("id").raw(id);
        why.empty() ? line.member("written", true) : line.member("error", why);
    });
}

std::string answer_text(const std::string& id, std::string_view output, std::string_view bytes) {
    return line_of(bytes.size() + 64, [&](JsonWriter& line) {
        line.key("id").raw(id).member("stream", output);
        if (append_text(line.key("text").slot(), bytes)) return;
        Buffer& out = line.key("text_base64").slot() << '"';
        append_base64(out, bytes);
        out << '"';
    });
}

}  // namespace callgate::jobs
