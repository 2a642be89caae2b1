// Reads HTTP/1.1 requests strictly: what two readers could understand differently is refused, never repaired.
//
// The sender controls every byte and where the pieces are cut. A proxy in front may read the same bytes. If
// it and this reader delimited a request differently, one client could speak in another's name. So a body has
// exactly one framing, written in exactly one way. A request that is refused ends its connection.
//
// Why no library: Boost.Beast took 26 of 61 doubtful requests, among them "Transfer-Encoding: xchunked" as no
// body, "5, 5" as a length, two Hosts and bytes above 0x7f. A strict check before it would have to find the
// same lines, fields and framing, which is this whole reader.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace callgate::jobs::http {

inline constexpr std::size_t max_head = std::size_t{16} << 10U, max_fields = 100;
inline constexpr std::size_t max_body = std::size_t{64} << 20U;

/// An answer that ends the connection.
struct Refused {
    int status = 400;
    std::string why;
};

struct Head {
    std::string method, target;
    std::vector<std::pair<std::string, std::string>> fields;  // names in lower case
    std::uint64_t length = 0;
    bool chunked = false, framed = false;  // framed: the head says whether there is a body
    bool keeps_open = true, expects_continue = false;

    /// The value of the only field of this name; nullopt where there is none.
    [[nodiscard]] std::optional<std::string_view> field(std::string_view name) const;
};

/// `text` ends with the first empty line, "\r\n\r\n".
[[nodiscard]] std::variant<Refused, Head> parse_head(std::string_view text);

/// Whether no head can begin with these bytes. Otherwise a sender of such bytes would be waited for.
[[nodiscard]] bool no_head(std::string_view begin);

/// The body that follows a head.
class Body {
public:
    explicit Body(const Head& head);
    /// Takes what belongs to the body from the beginning of `bytes`, and returns how much that was.
    std::size_t take(std::string_view bytes);
    [[nodiscard]] bool whole() const { return state_ == State::whole; }
    [[nodiscard]] const std::optional<Refused>& refused() const { return refused_; }
    [[nodiscard]] std::string& bytes() { return bytes_; }

private:
    enum class State : std::uint8_t { size, data, data_end, last_end, whole };
    void refuse(int status, std::string_view why);
    [[nodiscard]] std::size_t take_data(std::string_view bytes);
    void take_size(char one);
    void end_size();

    State state_;
    bool chunked_;
    std::uint64_t left_ = 0;  // of the chunk, or of the body
    std::string line_;        // the size of a chunk, or the end of one
    std::string bytes_;
    std::optional<Refused> refused_;
};

}  // namespace callgate::jobs::http
