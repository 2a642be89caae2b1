// Messages of the domain name system (RFC 1035): queries of programs, and answers of name servers.
//
// An attacker controls every byte of both. glibc's ns_* functions take a message apart. They check bounds,
// and no message is read beyond the length that was received. Messages that go on are composed anew: of a
// query only name and type, of an answer only addresses and known records.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "rules/model/request.hpp"

namespace callgate::names {

using Bytes = std::span<const std::uint8_t>;

/// Types that callgate treats in a way of their own.
enum Type : std::uint16_t { type_a = 1, type_cname = 5, type_ptr = 12, type_aaaa = 28, type_any = 255 };
enum class Code : std::uint8_t {
    ok = 0,
    malformed = 1,
    failed = 2,
    no_such_name = 3,
    not_implemented = 4,
    refused = 5
};

struct Query {
    std::uint16_t id = 0;
    bool recursion = false;
    std::uint8_t operation = 0;  // 0: a query
    std::string name;            // lower case, without a final dot; "" for the root
    bool host_name = false;      // the name consists of letters, digits, "-" and "_"
    std::uint16_t type = 0, class_number = 0;
    std::vector<std::uint8_t> question;  // as it was asked: answers repeat its letter case
};

/// Reads a message with one question, uncompressed. Returns nothing if it has none that an answer could
/// repeat.
[[nodiscard]] std::optional<Query> parse_query(Bytes message);

/// The longest answer: programs that cannot use TCP must get it whole.
inline constexpr std::size_t max_answer = 512;

/// An answer with addresses of the query's type, as many as fit; none: the name has no such address.
[[nodiscard]] std::vector<std::uint8_t> answer(const Query& query, Code code,
                                               std::span<const rules::IpAddress> addresses = {},
                                               std::uint32_t ttl = 0);
/// An answer to a PTR query.
[[nodiscard]] std::vector<std::uint8_t> name_answer(const Query& query, const std::string& name);
/// An answer to a message that holds no question; nothing if it is too short to be answered.
[[nodiscard]] std::optional<std::vector<std::uint8_t>> malformed(Bytes message);

struct Found {
    Code code = Code::failed;
    std::vector<rules::IpAddress> addresses;  // of the type that was asked, each once
    std::vector<std::string> aliases;         // the names that the name led over, lower case
    std::uint32_t ttl = 0;                    // the shortest
};
/// The addresses that a server's answer gives to `name`: its own, and those of the names it is an alias of.
/// Returns nothing if the message is malformed or answers another question.
[[nodiscard]] std::optional<Found> parse_answer(Bytes message, const std::string& name, std::uint16_t type);

/// A server's answer as the answer to `query`: its answer section alone, under the question as it was asked.
/// Truncated if it is longer than `limit`. Returns nothing if the message is malformed or answers another
/// question.
[[nodiscard]] std::optional<std::vector<std::uint8_t>> passed_on(const Query& query, Bytes message,
                                                                 std::size_t limit);

}  // namespace callgate::names
