#include "supervisor/jobs/answer.hpp"

#include <algorithm>

#include "base/escape.hpp"

namespace callgate::jobs {

namespace {


/// How many bytes the character that begins with `lead` has; 1 where none begins.
std::size_t length_of(unsigned char lead) {
    if (lead >= 0xC2 && lead <= 0xDF) return 2;
    if (lead >= 0xE0 && lead <= 0xEF) return 3;
    if (lead >= 0xF0 && lead <= 0xF4) return 4;
    return 1;
}

/// Whether a character could go on with `second` after `lead` (Unicode 15, table 3-7).
bool continues(unsigned char lead, unsigned char second) {
    if (lead == 0xE0) return second >= 0xA0 && second <= 0xBF;
    if (lead == 0xED) return second >= 0x80 && second <= 0x9F;
    if (lead == 0xF0) return second >= 0x90 && second <= 0xBF;
    if (lead == 0xF4) return second >= 0x80 && second <= 0x8F;
    return second >= 0x80 && second <= 0xBF;
}

/// The longest beginning of `bytes` that is the beginning of a character; at least 1.
std::size_t begun(std::string_view bytes) {
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

/// Hidden characters are not put into the line as they are.
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

/// One object, member by member.
class Line {
public:
    explicit Line(std::size_t size) : out_(size) {}
    Buffer& name(std::string_view name) {
        return out_ << (out_.size() == 0 ? "{\"" : ",\"") << name << "\":";
    }
    void text(std::string_view key, std::string_view value) { append_text(name(key), value); }
    void bytes(const std::string& key, const Captured& captured);
    [[nodiscard]] std::string end() {
        out_ << "}\n";
        return std::string(out_.view());
    }

private:
    Buffer out_;
};

void Line::bytes(const std::string& key, const Captured& captured) {
    const std::string_view kept = captured.cut() ? whole_characters(captured.bytes) : captured.bytes;
    if (!append_text(name(key), kept)) {
        name(key + "_base64") << '"';
        append_base64(out_, kept);
        out_ << '"';
    }
    if (!captured.cut()) return;
    name(key + "_truncated") << "true";
    name(key + "_bytes") << captured.total;
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
        const std::size_t taken = one.length > 0 ? one.length : begun(bytes);
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
        const bool cut = length_of(lead) > last && begun(end) == last;
        return cut ? bytes.substr(0, bytes.size() - last) : bytes;
    }
    return bytes;
}

std::string answer(const Result& result, bool compat) {
    Line line(result.output.bytes.size() + result.error.bytes.size() + result.report.size() + 256);
    if (!result.id.empty()) line.name("id") << result.id;
    if (!result.why.empty()) {
        line.text("error", result.why);
    } else {
        line.bytes("output", result.output);
        line.bytes("error", result.error);
        line.name(compat ? "code" : "exit_code") << result.exit_status;
    }
    std::string_view report = result.report;
    while (report.ends_with('\n')) report.remove_suffix(1);
    if (!report.empty()) line.name("report") << report;
    return line.end();
}

std::string answer(const Fault& fault, Form form) {
    Line line(256);
    if (!fault.id.empty() || form == Form::served)
        line.name("id") << (fault.id.empty() ? std::string_view("null") : std::string_view(fault.id));
    line.text("error", fault.why);
    return line.end();
}

std::string answer(const Cancel& cancel, bool found) {
    Line line(256);
    line.name("cancel") << cancel.id;
    line.name("found") << (found ? "true" : "false");
    return line.end();
}

}  // namespace callgate::jobs
