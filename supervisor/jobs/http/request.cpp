#include "supervisor/jobs/http/request.hpp"

#include <algorithm>
#include <charconv>

#include "base/number.hpp"

namespace callgate::jobs::http {

namespace {

/// The characters of names (RFC 9110, 5.6.2).
bool is_token(std::string_view text) {
    constexpr std::string_view marks = "!#$%&'*+-.^_`|~";
    return !text.empty() && std::ranges::all_of(text, [marks](char one) {
        return (one >= '0' && one <= '9') || (one >= 'a' && one <= 'z') || (one >= 'A' && one <= 'Z') ||
               marks.find(one) != std::string_view::npos;
    });
}

bool is_printable(char one) { return one > 0x20 && one < 0x7f; }

std::string lower(std::string_view text) {
    std::string made(text);
    for (char& one : made)
        if (one >= 'A' && one <= 'Z') one = static_cast<char>(one - 'A' + 'a');
    return made;
}

std::string_view trimmed(std::string_view text) {
    const std::size_t begin = text.find_first_not_of(" \t");
    if (begin == std::string_view::npos) return {};
    return text.substr(begin, text.find_last_not_of(" \t") - begin + 1);
}

/// Digits alone, and no zero before others.
std::optional<std::uint64_t> strict_length(std::string_view text) {
    if (text.empty() || text[0] < '0' || text[0] > '9' || (text[0] == '0' && text.size() > 1))
        return std::nullopt;
    return parse_number<std::uint64_t>(text);
}

class HeadReader {
public:
    std::variant<Refused, Head> read(std::string_view text) {
        if (!read_all(text)) return Refused{status_, why_};
        return std::move(head_);
    }

private:
    bool refuse(std::string_view why, int status = 400) {
        why_ = why;
        status_ = status;
        return false;
    }

    bool read_all(std::string_view text) {
        if (no_head(text))
            return refuse(
                "the request holds a line that does not end with CR LF, or a byte "
                "that is not printable");
        text.remove_suffix(2);
        bool first = true;
        while (!text.empty()) {
            const std::size_t end = text.find("\r\n");
            const std::string_view line = text.substr(0, end);
            if (!(first ? read_first(line) : read_field(line))) return false;
            first = false;
            text.remove_prefix(end + 2);
        }
        return check_framing() && check_others();
    }

    bool read_first(std::string_view line) {
        const std::size_t one = line.find(' '), two = line.rfind(' ');
        if (one == std::string_view::npos || one == two)
            return refuse("the request line is not METHOD TARGET HTTP/1.1");
        const std::string_view method = line.substr(0, one), version = line.substr(two + 1);
        const std::string_view target = line.substr(one + 1, two - one - 1);
        if (!is_token(method)) return refuse("the method is no word");
        if (!version.starts_with("HTTP/")) return refuse("the request line is not METHOD TARGET HTTP/1.1");
        if (version != "HTTP/1.1" && version != "HTTP/1.0")
            return refuse("only HTTP/1.1 and HTTP/1.0 are spoken here", 505);
        if (!target.starts_with('/') || target.find_first_of("#\\\"<>^`{|}") != std::string_view::npos ||
            !std::ranges::all_of(target, is_printable))
            return refuse("the target is not a path of printable ASCII that begins with /");
        head_.method = method;
        head_.target = target;
        head_.keeps_open = version_1_1_ = version == "HTTP/1.1";
        return true;
    }

    /// Folded lines begin with a blank, which no name does.
    bool read_field(std::string_view line) {
        const std::size_t colon = line.find(':');
        if (colon == std::string_view::npos || !is_token(line.substr(0, colon)))
            return refuse("a header is not NAME: VALUE, or has blanks around its name, or is folded");
        if (head_.fields.size() == max_fields) return refuse("there are more than 100 headers", 431);
        head_.fields.emplace_back(lower(line.substr(0, colon)), trimmed(line.substr(colon + 1)));
        return true;
    }

    [[nodiscard]] std::size_t count(std::string_view name) const {
        return static_cast<std::size_t>(
            std::ranges::count(head_.fields, name, &std::pair<std::string, std::string>::first));
    }

    bool check_framing() {
        const std::size_t lengths = count("content-length"), codings = count("transfer-encoding");
        if (lengths + codings > 1)
            return refuse("the body has more than one framing (Content-Length, Transfer-Encoding)");
        head_.framed = lengths + codings == 1;
        if (codings == 1) {
            if (!version_1_1_ || *head_.field("transfer-encoding") != "chunked")
                return refuse("Transfer-Encoding can only be chunked, in HTTP/1.1");
            head_.chunked = true;
        }
        if (lengths == 0) return true;
        const auto length = strict_length(*head_.field("content-length"));
        if (!length) return refuse("Content-Length is not one plain number");
        head_.length = *length;
        return *length <= max_body || refuse("the body is longer than 64 MiB", 413);
    }

    bool check_others() {
        if (count("host") > 1 || (version_1_1_ && count("host") != 1))
            return refuse("there must be one Host header");
        for (const std::string_view name :
             {"authorization", "content-type", "expect", "connection", "x-api-key", "x-request-id",
              "e2b-sandbox-id", "connect-timeout-ms"})
            if (count(name) > 1) return refuse("the header " + std::string(name) + " is there twice");
        for (const auto& [name, value] : head_.fields) {
            if (name.find("method-override") != std::string::npos || name == "x-http-method")
                return refuse("the header " + name + " would change the method");
            if (name == "trailer") return refuse("trailers are not read here");
        }
        if (const auto expected = head_.field("expect")) {
            if (lower(*expected) != "100-continue" || !version_1_1_)
                return refuse("Expect can only be 100-continue, in HTTP/1.1", 417);
            head_.expects_continue = true;
        }
        return read_connection();
    }

    /// A proxy drops the headers that Connection names. It may name none that this reader looks at.
    bool read_connection() {
        std::string all = lower(head_.field("connection").value_or(""));
        for (std::string_view rest = all; !rest.empty();) {
            const std::string_view one = trimmed(rest.substr(0, rest.find(',')));
            rest.remove_prefix(std::min(
                rest.size(), rest.find(',') == std::string_view::npos ? rest.size() : rest.find(',') + 1));
            if (one == "close")
                head_.keeps_open = false;
            else if (one != "keep-alive" && one != "upgrade" && one != "http2-settings" && one != "te")
                return refuse("Connection names something else than close, keep-alive or an upgrade");
        }
        return true;
    }

    Head head_;
    bool version_1_1_ = false;
    int status_ = 400;
    std::string why_;
};

}  // namespace

std::optional<std::string_view> Head::field(std::string_view name) const {
    const auto found = std::ranges::find(fields, name, &std::pair<std::string, std::string>::first);
    if (found == fields.end()) return std::nullopt;
    return found->second;
}

std::variant<Refused, Head> parse_head(std::string_view text) { return HeadReader().read(text); }

bool no_head(std::string_view begin) {
    for (std::size_t at = 0; at < begin.size(); ++at) {
        const char one = begin[at];
        if (one == '\r') {
            if (at + 1 < begin.size() && begin[at + 1] != '\n') return true;
        } else if (one == '\n') {
            if (at == 0 || begin[at - 1] != '\r') return true;
        } else if (!is_printable(one) && one != ' ' && one != '\t') {
            return true;
        }
    }
    return begin.starts_with('\r');
}

Body::Body(const Head& head) : state_(head.chunked ? State::size : State::data), chunked_(head.chunked) {
    left_ = head.chunked ? 0 : head.length;
    if (!chunked_ && left_ == 0) state_ = State::whole;
}

void Body::refuse(int status, std::string_view why) { refused_ = Refused{status, std::string(why)}; }

std::size_t Body::take(std::string_view bytes) {
    std::size_t taken = 0;
    while (taken < bytes.size() && !whole() && !refused_) {
        if (state_ == State::data) {
            taken += take_data(bytes.substr(taken));
        } else {
            take_size(bytes[taken]);
            ++taken;
        }
    }
    return taken;
}

std::size_t Body::take_data(std::string_view bytes) {
    const std::size_t count = std::min<std::uint64_t>(left_, bytes.size());
    bytes_.append(bytes.substr(0, count));
    left_ -= count;
    if (left_ == 0) state_ = chunked_ ? State::data_end : State::whole;
    return count;
}

/// The bytes between chunks: "\r\n" after the data, "SIZE\r\n", and "\r\n" after the last size, which is 0.
void Body::take_size(char one) {
    constexpr std::size_t max_line = 10;  // eight digits, CR, LF
    line_ += one;
    if (state_ != State::size) {
        if (line_ != std::string_view("\r\n").substr(0, line_.size()))
            return refuse(400, "a chunk is longer than its size, or has a trailer");
        if (line_.size() < 2) return;
        state_ = state_ == State::last_end ? State::whole : State::size;
        return line_.clear();
    }
    if (line_.ends_with("\r\n")) return end_size();
    if (line_.size() >= max_line || line_.find('\n') != std::string::npos ||
        line_.find('\r') < line_.size() - 1)
        refuse(400, "the size of a chunk is not up to eight hexadecimal digits alone");
}

void Body::end_size() {
    line_.resize(line_.size() - 2);
    const char* const end = line_.data() + line_.size();
    std::uint32_t size = 0;
    const auto [stop, error] = std::from_chars(line_.data(), end, size, 16);
    if (line_.empty() || error != std::errc{} || stop != end || (line_[0] == '0' && line_.size() > 1))
        return refuse(400, "the size of a chunk is not up to eight hexadecimal digits alone");
    if (bytes_.size() + size > max_body) return refuse(413, "the body is longer than 64 MiB");
    left_ = size;
    state_ = size == 0 ? State::last_end : State::data;
    line_.clear();
}

}  // namespace callgate::jobs::http
