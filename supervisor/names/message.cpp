#include "supervisor/names/message.hpp"

#include <arpa/nameser.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "rules/model/address.hpp"

namespace callgate::names {

namespace {

constexpr std::size_t header_size = 12, max_name = 255, max_label = 63;
constexpr std::uint16_t pointer_to_question = 0xc00c;
constexpr std::size_t max_aliases = 16;

char lower(char byte) { return byte >= 'A' && byte <= 'Z' ? static_cast<char>(byte - 'A' + 'a') : byte; }

bool of_host(char byte) {
    return (byte >= 'a' && byte <= 'z') || (byte >= '0' && byte <= '9') || byte == '-' || byte == '_';
}

std::uint16_t number_at(Bytes message, std::size_t at) {
    return static_cast<std::uint16_t>(message[at] << 8U | message[at + 1]);
}

void append(std::vector<std::uint8_t>& out, std::uint16_t number) {
    out.push_back(static_cast<std::uint8_t>(number >> 8U));
    out.push_back(static_cast<std::uint8_t>(number));
}

void append_long(std::vector<std::uint8_t>& out, std::uint32_t number) {
    append(out, static_cast<std::uint16_t>(number >> 16U));
    append(out, static_cast<std::uint16_t>(number));
}

/// The end of the uncompressed name at the start of the question; 0 if there is none.
std::size_t read_name(Bytes message, Query& query) {
    std::size_t at = header_size;
    query.host_name = true;
    while (at < message.size()) {
        const std::size_t length = message[at++];
        if (length == 0) return at - header_size <= max_name ? at : 0;
        if (length > max_label || length > message.size() - at || at + length - header_size > max_name)
            return 0;
        if (!query.name.empty()) query.name += '.';
        for (std::size_t end = at + length; at < end; ++at) {
            query.name += lower(static_cast<char>(message[at]));
            query.host_name = query.host_name && of_host(query.name.back());
        }
    }
    return 0;
}

std::vector<std::uint8_t> head(const Query& query, Code code, std::uint16_t answers, bool truncated = false) {
    std::vector<std::uint8_t> out;
    out.reserve(max_answer);
    append(out, query.id);
    constexpr std::uint16_t response = 0x8000, cut = 0x0200, recursion_wanted = 0x0100, recursion = 0x0080;
    append(out, static_cast<std::uint16_t>(
                    response | (static_cast<unsigned>(query.operation) << 11U) | (truncated ? cut : 0U) |
                    (query.recursion ? recursion_wanted : 0U) | recursion | static_cast<unsigned>(code)));
    append(out, query.question.empty() ? 0 : 1);
    append(out, answers);
    append(out, 0);
    append(out, 0);
    out.insert(out.end(), query.question.begin(), query.question.end());
    return out;
}

/// A name in text form as ns_parserr gives it, in lower case.
std::string text_of(const char* name) {
    std::string text(name);
    std::ranges::transform(text, text.begin(), lower);
    return text == "." ? "" : text;
}

bool asks(ns_msg& parsed, const std::string& name, std::uint16_t type) {
    ns_rr question{};
    if (ns_msg_count(parsed, ns_s_qd) != 1 || ns_parserr(&parsed, ns_s_qd, 0, &question) != 0) return false;
    return ns_rr_type(question) == type && ns_rr_class(question) == ns_c_in &&
           text_of(ns_rr_name(question)) == name;
}

bool parse(Bytes message, ns_msg& parsed) {
    return message.size() <= NS_MAXMSG &&
           ns_initparse(message.data(), static_cast<int>(message.size()), &parsed) == 0 &&
           ns_msg_getflag(parsed, ns_f_qr) != 0;
}

void add_address(Found& found, const ns_rr& record) {
    rules::IpAddress address;
    if (ns_rr_type(record) == ns_t_a && ns_rr_rdlen(record) == 4) {
        address = rules::make_ipv4(std::span<const std::uint8_t, 4>(ns_rr_rdata(record), 4));
    } else if (ns_rr_type(record) == ns_t_aaaa && ns_rr_rdlen(record) == 16) {
        // As it was answered: a mapped address stays IPv6 here, so that it fits the record of the answer.
        address.v6 = true;
        std::memcpy(address.bytes.data(), ns_rr_rdata(record), 16);
    } else {
        return;
    }
    if (std::ranges::find(found.addresses, address) == found.addresses.end())
        found.addresses.push_back(address);
}

/// The last record of the answer section, once all of them could be read; an empty one if there is none.
std::optional<ns_rr> last_answer(ns_msg& parsed) {
    ns_rr last{};
    for (int index = 0; index < ns_msg_count(parsed, ns_s_an); ++index)
        if (ns_parserr(&parsed, ns_s_an, index, &last) != 0) return std::nullopt;
    return last;
}

/// Follows the aliases from `name` through the answer section, in whatever order they stand.
bool follow(ns_msg& parsed, Found& found, std::string& name) {
    for (std::size_t step = 0; step <= max_aliases; ++step) {
        bool moved = false;
        for (int index = 0; index < ns_msg_count(parsed, ns_s_an) && !moved; ++index) {
            ns_rr record{};
            if (ns_parserr(&parsed, ns_s_an, index, &record) != 0) return false;
            if (ns_rr_type(record) != ns_t_cname || text_of(ns_rr_name(record)) != name) continue;
            std::array<char, NS_MAXDNAME> target{};
            if (ns_name_uncompress(ns_msg_base(parsed), ns_msg_end(parsed), ns_rr_rdata(record),
                                   target.data(), target.size()) < 0)
                return false;
            name = text_of(target.data());
            found.aliases.push_back(name);
            found.ttl = std::min<std::uint32_t>(found.ttl, ns_rr_ttl(record));
            moved = true;
        }
        if (!moved) return true;
    }
    return false;  // a loop, or longer than any in use
}

}  // namespace

std::optional<Query> parse_query(Bytes message) {
    if (message.size() < header_size) return std::nullopt;
    Query query;
    query.id = number_at(message, 0);
    const std::uint16_t flags = number_at(message, 2);
    query.operation = static_cast<std::uint8_t>(flags >> 11U & 0xfU);
    query.recursion = (flags & 0x0100U) != 0;
    const bool response = (flags & 0x8000U) != 0;
    if (response || number_at(message, 4) != 1) return std::nullopt;
    const std::size_t end = read_name(message, query);
    if (end == 0 || message.size() - end < 4) return std::nullopt;
    query.type = number_at(message, end);
    query.class_number = number_at(message, end + 2);
    const Bytes question = message.subspan(header_size, end + 4 - header_size);
    query.question.assign(question.begin(), question.end());
    return query;
}

std::vector<std::uint8_t> answer(const Query& query, Code code, std::span<const rules::IpAddress> addresses,
                                 std::uint32_t ttl) {
    const std::size_t size = query.type == type_aaaa ? 16 : 4, record = 12 + size;
    const std::size_t room = max_answer - header_size - query.question.size();
    const std::size_t count = std::min(addresses.size(), room / record);
    std::vector<std::uint8_t> out = head(query, code, static_cast<std::uint16_t>(count));
    for (const rules::IpAddress& address : addresses.first(count)) {
        append(out, pointer_to_question);
        append(out, query.type);
        append(out, ns_c_in);
        append_long(out, ttl);
        append(out, static_cast<std::uint16_t>(size));
        out.insert(out.end(), address.bytes.begin(),
                   address.bytes.begin() + static_cast<std::ptrdiff_t>(size));
    }
    return out;
}

std::vector<std::uint8_t> name_answer(const Query& query, const std::string& name) {
    std::array<std::uint8_t, NS_MAXCDNAME> packed{};
    const int size =
        ns_name_pton(name.c_str(), packed.data(), packed.size()) < 0 ? -1 : static_cast<int>(name.size() + 2);
    if (size < 0) return answer(query, Code::no_such_name);
    std::vector<std::uint8_t> out = head(query, Code::ok, 1);
    append(out, pointer_to_question);
    append(out, type_ptr);
    append(out, ns_c_in);
    append_long(out, 0);
    append(out, static_cast<std::uint16_t>(size));
    out.insert(out.end(), packed.begin(), packed.begin() + size);
    return out;
}

std::optional<std::vector<std::uint8_t>> malformed(Bytes message) {
    if (message.size() < header_size || (message[2] & 0x80U) != 0) return std::nullopt;
    Query query;
    query.id = number_at(message, 0);
    query.operation = static_cast<std::uint8_t>(message[2] >> 3U & 0xfU);
    return head(query, Code::malformed, 0);
}

std::optional<Found> parse_answer(Bytes message, const std::string& name, std::uint16_t type) {
    ns_msg parsed{};
    if (!parse(message, parsed) || !asks(parsed, name, type)) return std::nullopt;
    Found found;
    found.code = static_cast<Code>(ns_msg_getflag(parsed, ns_f_rcode));
    found.ttl = UINT32_MAX;
    std::string owner = name;
    if (!follow(parsed, found, owner)) return std::nullopt;
    for (int index = 0; index < ns_msg_count(parsed, ns_s_an); ++index) {
        ns_rr record{};
        if (ns_parserr(&parsed, ns_s_an, index, &record) != 0) return std::nullopt;
        if (ns_rr_type(record) != type || ns_rr_class(record) != ns_c_in ||
            text_of(ns_rr_name(record)) != owner)
            continue;
        found.ttl = std::min<std::uint32_t>(found.ttl, ns_rr_ttl(record));
        add_address(found, record);
    }
    if (found.addresses.empty()) found.ttl = 0;
    return found;
}

std::optional<std::vector<std::uint8_t>> passed_on(const Query& query, Bytes message, std::size_t limit) {
    ns_msg parsed{};
    if (!parse(message, parsed) || !asks(parsed, query.name, query.type)) return std::nullopt;
    // The server's question must have the bytes of ours but for letter case: pointers lead into it, and the
    // records begin behind it.
    const std::size_t body = header_size + query.question.size();
    const auto same = [](std::uint8_t left, std::uint8_t right) {
        return lower(static_cast<char>(left)) == lower(static_cast<char>(right));
    };
    if (message.size() < body ||
        !std::equal(query.question.begin(), query.question.end(), message.begin() + header_size, same))
        return std::nullopt;
    const int count = ns_msg_count(parsed, ns_s_an);
    const auto last = last_answer(parsed);
    if (!last) return std::nullopt;
    const std::size_t end =
        count == 0 ? body
                   : static_cast<std::size_t>(ns_rr_rdata(*last) + ns_rr_rdlen(*last) - ns_msg_base(parsed));
    const auto code = static_cast<Code>(ns_msg_getflag(parsed, ns_f_rcode));
    if (end > limit || end > message.size() || end < body) return head(query, code, 0, true);
    std::vector<std::uint8_t> out = head(query, code, static_cast<std::uint16_t>(count));
    const Bytes records = message.subspan(body, end - body);
    out.insert(out.end(), records.begin(), records.end());
    // A name in a record may have led into a part that is left out, or into the head, which is ours now.
    ns_msg composed{};
    if (!parse(out, composed) || !last_answer(composed)) return std::nullopt;
    return out;
}

}  // namespace callgate::names
