// Finds the rules that could match an internet endpoint, by its address or its port.
//
// Private to rules/match/rule_set. The index only narrows down: callers still test each rule in full. Rules
// with hosts or addresses are stored under each of their blocks, and every occurring prefix length is looked
// up once. Rules with few ports are stored under each port. All others are always offered. Filled once, then
// only read.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "rules/model/rule.hpp"

namespace callgate::rules {

class EndpointIndex {
public:
    void add(std::uint32_t rule, const Conditions& when);

    /// Calls `visit(rule)` for every rule that could match, perhaps more than once for a rule.
    template <typename Visit>
    void search(const Endpoint& endpoint, Visit visit) const {
        for (const std::uint32_t rule : always_) visit(rule);
        if (const auto found = ports_.find(endpoint.port); found != ports_.end()) {
            for (const std::uint32_t rule : found->second) visit(rule);
        }
        for (const int prefix : endpoint.address.v6 ? prefixes_v6_ : prefixes_v4_) {
            const auto found = blocks_.find(network(endpoint.address, prefix));
            if (found == blocks_.end()) continue;
            for (const std::uint32_t rule : found->second) visit(rule);
        }
    }

private:
    struct BlockHash {
        std::size_t operator()(const Cidr& block) const;
    };
    /// The block of this size that `address` lies in: bits beyond the prefix are zero.
    static Cidr network(const IpAddress& address, int prefix);
    void add_block(std::uint32_t rule, const Cidr& block);

    std::vector<std::uint32_t> always_;
    std::unordered_map<std::uint16_t, std::vector<std::uint32_t>> ports_;
    std::unordered_map<Cidr, std::vector<std::uint32_t>, BlockHash> blocks_;
    std::vector<int> prefixes_v4_, prefixes_v6_;
};

}  // namespace callgate::rules
