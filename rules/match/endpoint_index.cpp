#include "rules/match/endpoint_index.hpp"

#include <algorithm>

namespace callgate::rules {

namespace {
/// Rules with more ports are cheaper to test than to store.
constexpr unsigned max_stored_ports = 64;
}  // namespace

std::size_t EndpointIndex::BlockHash::operator()(const Cidr& block) const {
    std::uint64_t hash = 0xcbf29ce484222325 + static_cast<std::uint64_t>(block.prefix);
    for (const std::uint8_t byte : block.address.bytes) hash = (hash ^ byte) * 0x100000001b3;
    return static_cast<std::size_t>(hash ^ hash >> 32);
}

Cidr EndpointIndex::network(const IpAddress& address, int prefix) {
    Cidr block{address, prefix};
    for (int index = 0; index < 16; ++index) {
        const int kept = std::clamp(prefix - index * 8, 0, 8);
        std::uint8_t& byte = block.address.bytes[static_cast<std::size_t>(index)];
        byte = static_cast<std::uint8_t>(byte & (0xff00U >> kept));
    }
    return block;
}

void EndpointIndex::add_block(std::uint32_t rule, const Cidr& block) {
    blocks_[network(block.address, block.prefix)].push_back(rule);
    std::vector<int>& prefixes = block.address.v6 ? prefixes_v6_ : prefixes_v4_;
    if (std::find(prefixes.begin(), prefixes.end(), block.prefix) == prefixes.end())
        prefixes.push_back(block.prefix);
}

void EndpointIndex::add(std::uint32_t rule, const Conditions& when) {
    if (!when.host.empty()) {
        for (const HostPattern& host : when.host)
            (host.suffix ? suffixes_ : hosts_)[host.text.substr(host.suffix ? 2 : 0)].push_back(rule);
        return;
    }
    if (!when.address.empty() && !when.own_address) {
        for (const Cidr& block : when.address) add_block(rule, block);
        return;
    }
    unsigned count = 0;
    for (const PortRange& range : when.port) {
        if (range.first <= range.last) count += 1U + range.last - range.first;
    }
    if (when.port.empty() || count > max_stored_ports) {
        always_.push_back(rule);
        return;
    }
    for (const PortRange& range : when.port) {
        for (unsigned port = range.first; port <= range.last; ++port) {
            ports_[static_cast<std::uint16_t>(port)].push_back(rule);
        }
    }
}

}  // namespace callgate::rules
