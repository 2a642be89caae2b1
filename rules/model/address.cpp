#include "rules/model/address.hpp"

#include <arpa/inet.h>

#include <algorithm>
#include <charconv>

namespace callgate::rules {

namespace {

constexpr std::array<std::uint8_t, 12> mapped_prefix = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
constexpr int mapped_bits = 96;

bool is_digit(char byte) { return byte >= '0' && byte <= '9'; }
bool is_letter(char byte) { return byte >= 'a' && byte <= 'z'; }

std::string quoted(std::string_view text) {
    constexpr std::size_t shown = 80;
    return '"' + std::string(text.substr(0, shown)) + (text.size() > shown ? "..." : "") + '"';
}

/// Parses a decimal number without sign or leading zeros, at most `limit`.
std::optional<unsigned> parse_decimal(std::string_view text, unsigned limit) {
    if (text.empty() || text.size() > 5 || (text.size() > 1 && text.front() == '0')) return std::nullopt;
    unsigned value = 0;
    const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (failure != std::errc() || end != text.data() + text.size() || value > limit) return std::nullopt;
    return value;
}

/// The address exactly as written: an IPv4-mapped one stays IPv6.
Expected<IpAddress> parse_written(std::string_view text) {
    if (text.find('%') != std::string_view::npos)
        return Problem{"an address with a scope id cannot be matched: write " +
                       quoted(text.substr(0, text.find('%'))) + " without it"};
    std::array<char, INET6_ADDRSTRLEN + 1> buffer{};
    IpAddress address;
    address.v6 = text.find(':') != std::string_view::npos;
    const bool fits = text.size() < buffer.size() && text.find('\0') == std::string_view::npos;
    if (fits) std::copy(text.begin(), text.end(), buffer.begin());
    if (!fits || inet_pton(address.v6 ? AF_INET6 : AF_INET, buffer.data(), address.bytes.data()) != 1)
        return Problem{quoted(text) + " is not an IPv4 or IPv6 address"};
    return address;
}

bool is_mapped(const IpAddress& address) {
    return address.v6 && std::equal(mapped_prefix.begin(), mapped_prefix.end(), address.bytes.begin());
}

/// A copy of `address` whose bits from `prefix` on are zero.
IpAddress masked(const IpAddress& address, unsigned prefix) {
    IpAddress result = address;
    for (unsigned index = 0; index < result.bytes.size(); ++index) {
        const unsigned kept = prefix <= index * 8 ? 0 : std::min(prefix - index * 8, 8U);
        result.bytes[index] = static_cast<std::uint8_t>(result.bytes[index] & (0xff00U >> kept));
    }
    return result;
}

bool valid_label(std::string_view label) {
    if (label.empty() || label.size() > 63 || label.front() == '-' || label.back() == '-') return false;
    return std::all_of(label.begin(), label.end(), [](char byte) {
        return is_letter(byte) || is_digit(byte) || byte == '-' || byte == '_';
    });
}

/// Resolvers take a name for an IPv4 address when its last label is a number ("127.1", "0x7f.1").
bool ends_in_number(std::string_view name) {
    const std::string_view last = name.substr(name.rfind('.') + 1);
    if (last.starts_with("0x")) {
        return last.find_first_not_of("0123456789abcdef", 2) == std::string_view::npos;
    }
    return std::all_of(last.begin(), last.end(), is_digit);
}

bool valid_name(std::string_view name) {
    if (name.empty() || name.size() > 253) return false;
    while (true) {
        const std::size_t dot = name.find('.');
        if (!valid_label(name.substr(0, dot))) return false;
        if (dot == std::string_view::npos) return true;
        name.remove_prefix(dot + 1);
    }
}

struct Split {
    std::string_view host;
    std::optional<std::string_view> port;
};

/// Splits HOST[:PORT]. More than one colon without brackets means a bare IPv6 address.
Expected<Split> split_port(std::string_view text) {
    if (text.starts_with('[')) {
        const std::size_t close = text.find(']');
        const std::string_view after = close == std::string_view::npos ? "" : text.substr(close + 1);
        if (close == std::string_view::npos || (!after.empty() && after.front() != ':'))
            return Problem{quoted(text) + " should be [ADDRESS] or [ADDRESS]:PORT"};
        Split split{text.substr(1, close - 1), std::nullopt};
        if (!after.empty()) split.port = after.substr(1);
        return split;
    }
    const std::size_t colon = text.find(':');
    if (colon == std::string_view::npos || text.find(':', colon + 1) != std::string_view::npos) {
        return Split{text, std::nullopt};
    }
    return Split{text.substr(0, colon), text.substr(colon + 1)};
}

bool looks_like_address(std::string_view host) {
    return host.find_first_of(":/%") != std::string_view::npos ||
           host.find_first_not_of("0123456789.") == std::string_view::npos;
}

}  // namespace

IpAddress make_ipv4(std::span<const std::uint8_t, 4> bytes) {
    IpAddress address;
    std::copy(bytes.begin(), bytes.end(), address.bytes.begin());
    return address;
}

IpAddress make_ipv6(std::span<const std::uint8_t, 16> bytes) {
    IpAddress address;
    address.v6 = true;
    std::copy(bytes.begin(), bytes.end(), address.bytes.begin());
    return is_mapped(address) ? make_ipv4(bytes.last<4>()) : address;
}

Expected<IpAddress> parse_address(std::string_view text) {
    Expected<IpAddress> written = parse_written(text);
    if (written && written->v6) return make_ipv6(written->bytes);
    return written;
}

namespace {

/// The host of a URL, or of a name with a port or a path, and its port.
struct PlainHost {
    std::string name;
    std::optional<std::uint32_t> port;
    std::string_view what;  // " is a URL" and the like
};

/// Returns nothing for a name alone, and for what holds no name.
std::optional<PlainHost> plain_host(std::string_view text) {
    std::string_view rest = text;
    const std::size_t scheme = rest.find("://");
    if (scheme != std::string_view::npos) rest.remove_prefix(scheme + 3);
    const std::size_t path = rest.find_first_of("/?#");
    rest = rest.substr(0, path);
    rest = rest.substr(rest.rfind('@') + 1);
    const std::size_t colon = rest.find(':');
    PlainHost host{.name = std::string(rest.substr(0, colon)), .port = std::nullopt, .what = {}};
    const bool has_port = colon != std::string_view::npos;
    if (has_port) host.port = parse_decimal(rest.substr(colon + 1), 65535);
    const bool other_form = scheme != std::string_view::npos || path != std::string_view::npos || has_port;
    if (!other_form || !valid_name(host.name) || (has_port && !host.port)) return std::nullopt;
    host.what = scheme != std::string_view::npos ? " is a URL" : has_port ? " has a port" : " has a path";
    if (!has_port && text.starts_with("https://")) host.port = 443;
    if (!has_port && text.starts_with("http://")) host.port = 80;
    return host;
}

bool is_url(std::string_view text) { return text.find("://") != std::string_view::npos; }

/// The conditions to write in place of a URL, or of a name with a port; "" for anything else.
std::string right_form(std::string_view text) {
    const std::optional<PlainHost> host = plain_host(text);
    if (!host) return is_url(text) ? " is a URL: write its host alone" : "";
    std::string form = std::string(host->what) + ": write \"" +
                       (ends_in_number(host->name) ? "address" : "host") + "\": \"" + host->name + '"';
    if (host->port) form += ", \"port\": " + std::to_string(*host->port);
    return form;
}

}  // namespace

Expected<Cidr> parse_cidr(std::string_view text) {
    if (is_url(text)) return Problem{quoted(text) + right_form(text)};
    const std::size_t slash = text.find('/');
    const Expected<IpAddress> written = parse_written(text.substr(0, slash));
    if (!written) return written.error();
    const unsigned width = written->v6 ? 128 : 32;
    std::optional<unsigned> prefix = width;
    if (slash != std::string_view::npos) prefix = parse_decimal(text.substr(slash + 1), width);
    if (!prefix) return Problem{quoted(text) + " should end in /0 to /" + std::to_string(width)};
    const IpAddress network = masked(*written, *prefix);
    if (network != *written)
        return Problem{quoted(text) + " has bits set beyond its prefix: write " +
                       rules::text(Cidr{network, static_cast<int>(*prefix)}) +
                       " for the whole block, or the address alone"};
    if (is_mapped(network) && *prefix >= mapped_bits) {
        return Cidr{make_ipv6(network.bytes), static_cast<int>(*prefix) - mapped_bits};
    }
    return Cidr{network, static_cast<int>(*prefix)};
}

Expected<PortRange> parse_ports(std::string_view text) {
    const std::size_t dash = text.find('-');
    const std::optional<unsigned> first = parse_decimal(text.substr(0, dash), 65535);
    const std::optional<unsigned> last =
        dash == std::string_view::npos ? first : parse_decimal(text.substr(dash + 1), 65535);
    if (!first || !last || *first > *last)
        return Problem{quoted(text) + " is not a port (0 to 65535) or a range like 8000-8999"};
    return PortRange{static_cast<std::uint16_t>(*first), static_cast<std::uint16_t>(*last)};
}

Expected<HostPattern> parse_host(std::string_view text) {
    if (std::any_of(text.begin(), text.end(),
                    [](char byte) { return static_cast<unsigned char>(byte) >= 0x80; }))
        return Problem{
            quoted(text) +
            " is not ASCII: write the host's xn-- form (letters that look alike would pass unseen)"};
    HostPattern pattern;
    pattern.text.assign(text.substr(0, 512));
    for (char& byte : pattern.text) {
        if (byte >= 'A' && byte <= 'Z') byte = static_cast<char>(byte - 'A' + 'a');
    }
    if (pattern.text.ends_with('.')) pattern.text.pop_back();
    pattern.suffix = pattern.text.starts_with("*.");
    const std::string_view name = std::string_view(pattern.text).substr(pattern.suffix ? 2 : 0);
    if (!valid_name(name)) {
        if (const std::string form = right_form(text); !form.empty()) return Problem{quoted(text) + form};
        const bool any = text == "*";
        return Problem{quoted(text) + " is not a host name or *.suffix" +
                       (any ? " (leave `host` out to match every host)" : "")};
    }
    if (ends_in_number(name))
        return Problem{quoted(text) + " would be taken for an address: write it in full as `address`"};
    return pattern;
}

bool is_one_host(std::string_view name) {
    const Expected<HostPattern> host = parse_host(name);
    return host && !host->suffix;
}

Expected<Destination> parse_destination(std::string_view text) {
    Destination destination{HostPattern{}, std::nullopt, std::nullopt};
    const std::string_view whole = text;
    if (text.ends_with("/udp") || text.ends_with("/tcp")) {
        destination.protocol = text.ends_with("/udp") ? Protocol::udp : Protocol::tcp;
        text.remove_suffix(4);
    }
    if (is_url(text)) {
        const std::optional<PlainHost> host = plain_host(text);
        return Problem{quoted(whole) + " is a URL: write its host and port alone" +
                       (host && host->port ? ", " + host->name + ':' + std::to_string(*host->port) : "")};
    }
    const Expected<Split> split = split_port(text);
    if (!split) return split.error();
    if (split->port) {
        const Expected<PortRange> ports = parse_ports(*split->port);
        if (!ports) return ports.error();
        destination.port = *ports;
    }
    if (whole.starts_with('[') || looks_like_address(split->host)) {
        const Expected<Cidr> block = parse_cidr(split->host);
        if (!block) return block.error();
        destination.host = *block;
        return destination;
    }
    Expected<HostPattern> host = parse_host(split->host);
    if (!host) return host.error();
    destination.host = std::move(*host);
    return destination;
}

std::string text(const IpAddress& address) {
    std::array<char, INET6_ADDRSTRLEN> buffer{};
    inet_ntop(address.v6 ? AF_INET6 : AF_INET, address.bytes.data(), buffer.data(), buffer.size());
    return buffer.data();
}

std::string text(const Cidr& block) {
    const int width = block.address.v6 ? 128 : 32;
    return text(block.address) + (block.prefix == width ? "" : '/' + std::to_string(block.prefix));
}

std::string text(const PortRange& ports) {
    const std::string first = std::to_string(ports.first);
    return ports.first == ports.last ? first : first + '-' + std::to_string(ports.last);
}

std::string text(const Endpoint& endpoint) {
    const std::string address = text(endpoint.address);
    return (endpoint.address.v6 ? '[' + address + ']' : address) + ':' + std::to_string(endpoint.port);
}

}  // namespace callgate::rules
