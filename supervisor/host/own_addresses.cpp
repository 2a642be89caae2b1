#include "supervisor/host/own_addresses.hpp"

#include <ifaddrs.h>
#include <netinet/in.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <iterator>
#include <memory>
#include <stdexcept>
#include <string>

#include "base/test_switch.hpp"
#include "rules/model/address.hpp"

namespace callgate {

std::vector<rules::IpAddress> own_addresses() {
    if (!check_enabled("own-addresses")) return {};
    ifaddrs* first = nullptr;
    if (::getifaddrs(&first) != 0)
        throw std::runtime_error(std::string("the addresses of this machine are not known: ") +
                                 std::strerror(errno));
    const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> all(first, ::freeifaddrs);
    std::vector<rules::IpAddress> found;
    for (const ifaddrs* one = first; one != nullptr; one = one->ifa_next) {
        if (one->ifa_addr == nullptr) continue;
        rules::IpAddress address;
        if (one->ifa_addr->sa_family == AF_INET) {
            const auto* const four = reinterpret_cast<const sockaddr_in*>(one->ifa_addr);
            std::array<std::uint8_t, 4> bytes{};
            std::memcpy(bytes.data(), &four->sin_addr, bytes.size());
            address = rules::make_ipv4(bytes);
        } else if (one->ifa_addr->sa_family == AF_INET6) {
            const auto* const six = reinterpret_cast<const sockaddr_in6*>(one->ifa_addr);
            std::array<std::uint8_t, 16> bytes{};
            std::memcpy(bytes.data(), &six->sin6_addr, bytes.size());
            address = rules::make_ipv6(bytes);
        } else {
            continue;
        }
        if (std::find(found.begin(), found.end(), address) == found.end()) found.push_back(address);
    }
    return found;
}

std::vector<rules::IpAddress> own_among(const std::vector<rules::IpAddress>& addresses) {
    if (addresses.empty()) return {};
    std::vector<rules::IpAddress> found;
    try {
        const std::vector<rules::IpAddress> own = own_addresses();
        std::ranges::copy_if(addresses, std::back_inserter(found), [&own](const rules::IpAddress& one) {
            const rules::IpAddress plain = one.v6 ? rules::make_ipv6(one.bytes) : one;  // it may be mapped
            return std::ranges::find(own, plain) != own.end();
        });
    } catch (const std::runtime_error&) {
        return addresses;
    }
    return found;
}

bool is_own_address(const rules::IpAddress& address) {
    return check_enabled("new-addresses") && !own_among({address}).empty();
}

}  // namespace callgate
