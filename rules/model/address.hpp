// Addresses, ports and host names as people write them, and back to text.
//
// This is pure text work: nothing is resolved. An attacker may have written the text (a downloaded rule set),
// so every length is bounded. Text that could be read in two ways is refused: scope ids, octal or short IPv4
// forms, look-alike letters. The message then says what to write.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>

#include "base/expected.hpp"
#include "rules/model/request.hpp"
#include "rules/model/rule.hpp"

namespace callgate::rules {

/// The address of bytes in network order. The IPv4-mapped form of an IPv6 address becomes IPv4.
[[nodiscard]] IpAddress make_ipv4(std::span<const std::uint8_t, 4> bytes);
[[nodiscard]] IpAddress make_ipv6(std::span<const std::uint8_t, 16> bytes);

/// Parses "192.0.2.1", "2001:db8::1", "::ffff:192.0.2.1" (becomes IPv4). No brackets, no scope id, four full
/// decimal numbers. The error says what to write.
[[nodiscard]] Expected<IpAddress> parse_address(std::string_view text);

/// Parses an address, or "ADDRESS/PREFIX" without bits beyond the prefix. An IPv4-mapped block of at least 96
/// bits becomes an IPv4 block.
[[nodiscard]] Expected<Cidr> parse_cidr(std::string_view text);

/// Parses "443" or "8000-8999" (both ends included), decimal without leading zeros.
[[nodiscard]] Expected<PortRange> parse_ports(std::string_view text);

/// Parses "name" or "*.suffix". ASCII letters are folded to lower case and one final dot is dropped; `text`
/// of the result keeps the "*.". Names that are not ASCII are refused: they must be written in their xn--
/// form. So are names that a resolver would take for an address ("127.1", "0x7f000001").
[[nodiscard]] Expected<HostPattern> parse_host(std::string_view text);
/// Whether a host can have this name, and a pattern of this text stands for no other.
[[nodiscard]] bool is_one_host(std::string_view name);

/// HOST[:PORT][/tcp|/udp] as options and examples name the other end. HOST is a name, "*.suffix", an address,
/// a CIDR block or an IPv6 address in brackets. A bare IPv6 address takes no port.
struct Destination {
    std::variant<HostPattern, Cidr> host;
    std::optional<PortRange> port;
    std::optional<Protocol> protocol;
};
[[nodiscard]] Expected<Destination> parse_destination(std::string_view text);

/// "192.0.2.1", "2001:db8::1".
[[nodiscard]] std::string text(const IpAddress& address);
/// "192.0.2.0/24"; a single address without its prefix.
[[nodiscard]] std::string text(const Cidr& block);
/// "443" or "8000-8999".
[[nodiscard]] std::string text(const PortRange& ports);
/// "192.0.2.1:443", "[2001:db8::1]:443".
[[nodiscard]] std::string text(const Endpoint& endpoint);

}  // namespace callgate::rules
