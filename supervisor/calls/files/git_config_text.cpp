#include "supervisor/calls/files/git_config_text.hpp"

#include <algorithm>
#include <utility>

namespace callgate::calls {

namespace {

bool is_letter(char one) { return (one >= 'a' && one <= 'z') || (one >= 'A' && one <= 'Z'); }
bool is_digit(char one) { return one >= '0' && one <= '9'; }
bool is_blank(char one) { return one == ' ' || one == '\t'; }
bool is_control(char one) { return (static_cast<unsigned char>(one) < 0x20 && one != '\t') || one == 0x7f; }

/// The rest of a line, read from the left.
class Rest {
public:
    explicit Rest(std::string_view text) : text_(text) {}

    [[nodiscard]] bool empty() const { return text_.empty(); }
    [[nodiscard]] char next() const { return text_.empty() ? '\0' : text_.front(); }
    char take() {
        const char one = next();
        if (!text_.empty()) text_.remove_prefix(1);
        return one;
    }
    bool take(char wanted) { return next() == wanted && !text_.empty() && take() == wanted; }
    void skip_blanks() {
        while (!text_.empty() && is_blank(text_.front())) text_.remove_prefix(1);
    }
    std::string take_name() {
        std::size_t end = 0;
        while (end < text_.size() && is_git_name(text_[end])) ++end;
        std::string name(text_.substr(0, end));
        text_.remove_prefix(end);
        return name;
    }
    [[nodiscard]] bool at_comment() const { return next() == '#' || next() == ';'; }
    /// The comment that is left; nothing if it is more than blanks and a comment.
    std::optional<std::string> take_comment() {
        skip_blanks();
        if (!text_.empty() && !at_comment()) return std::nullopt;
        return std::string(text_);
    }

private:
    std::string_view text_;
};

bool parse_section(Rest& rest, GitConfigLine& line) {
    line.kind = GitConfigLine::Kind::section;
    line.section.name = rest.take_name();
    if (line.section.name.empty()) return false;
    if (is_blank(rest.next())) {
        rest.skip_blanks();
        if (!rest.take('"')) return false;
        std::string& name = line.section.subsection.emplace();
        while (!rest.empty() && rest.next() != '"') {
            char one = rest.take();
            if (one == '\\') {
                one = rest.take();
                if (one != '"' && one != '\\') return false;
            }
            if (one == '\t') return false;
            name += one;
        }
        if (!rest.take('"')) return false;
    }
    if (!rest.take(']')) return false;
    auto comment = rest.take_comment();
    line.comment = comment.value_or("");
    return comment.has_value();
}

bool parse_value(Rest& rest, std::string& value) {
    std::size_t kept = 0;  // blanks at the end count only in quotes
    bool quoted = false;
    while (!rest.empty() && (quoted || !rest.at_comment())) {
        char one = rest.take();
        if (one == '"') {
            quoted = !quoted;
            kept = value.size();
            continue;
        }
        // git's versions differ about a tab in the middle of a value.
        if (one == '\t' && !quoted) {
            rest.skip_blanks();
            if (!rest.empty() && !rest.at_comment()) return false;
            break;
        }
        const bool blank = one == ' ' && !quoted;
        if (blank && value.empty()) continue;
        if (one == '\\') {
            const char escaped = rest.take();
            if (escaped == 't')
                one = '\t';
            else if (escaped == 'n')
                one = '\n';
            else if (escaped == '"' || escaped == '\\')
                one = escaped;
            else
                return false;
        }
        value += one;
        if (!blank) kept = value.size();
    }
    value.resize(kept);
    return !quoted;
}

bool parse_setting(Rest& rest, GitConfigLine& line) {
    line.kind = GitConfigLine::Kind::setting;
    if (!is_letter(rest.next())) return false;
    line.key = rest.take_name();
    rest.skip_blanks();
    if (rest.empty()) return true;
    if (!rest.take('=')) return false;
    rest.skip_blanks();
    line.value.emplace();
    if (!parse_value(rest, *line.value)) return false;
    auto comment = rest.take_comment();
    line.comment = comment.value_or("");
    return comment.has_value();
}

void write_escaped(std::string_view text, std::string& out) {
    for (const char one : text) {
        if (one == '\n')
            out += "\\n";
        else if (one == '\t')
            out += "\\t";
        else if (one == '"' || one == '\\')
            (out += '\\') += one;
        else
            out += one;
    }
}

void write_line(const GitConfigLine& line, std::string& out) {
    if (line.kind == GitConfigLine::Kind::section) {
        (out += '[') += line.section.name;
        if (line.section.subsection) {
            out += " \"";
            write_escaped(*line.section.subsection, out);
            out += '"';
        }
        out += ']';
    } else if (line.kind == GitConfigLine::Kind::setting) {
        (out += '\t') += line.key;
        if (line.value) {
            const std::string& value = *line.value;
            const bool quoted = value.starts_with(' ') || value.ends_with(' ') ||
                                value.find_first_of("#;") != std::string::npos;
            out += " = ";
            if (quoted) out += '"';
            write_escaped(value, out);
            if (quoted) out += '"';
        }
    }
    if (!line.comment.empty()) (out += line.kind == GitConfigLine::Kind::other ? "" : " ") += line.comment;
    out += '\n';
}

}  // namespace

bool is_git_name(char one) { return is_letter(one) || is_digit(one) || one == '-'; }

std::optional<std::vector<GitConfigLine>> parse_git_config(std::string_view text) {
    std::vector<GitConfigLine> lines;
    GitConfigSection section;
    while (!text.empty()) {
        const std::size_t end = text.find('\n');
        const std::string_view whole = text.substr(0, end);
        text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
        if (std::ranges::any_of(whole, is_control)) return std::nullopt;
        Rest rest(whole);
        rest.skip_blanks();
        GitConfigLine& line = lines.emplace_back();
        if (rest.take('[')) {
            if (!parse_section(rest, line)) return std::nullopt;
            section = line.section;
        } else if (auto comment = rest.take_comment()) {
            line.comment = std::move(*comment);
        } else {
            line.section = section;
            if (section.name.empty() || !parse_setting(rest, line)) return std::nullopt;
        }
    }
    return lines;
}

std::string git_config_text(const std::vector<GitConfigLine>& lines) {
    std::string text;
    for (const GitConfigLine& line : lines) write_line(line, text);
    return text;
}

}  // namespace callgate::calls
