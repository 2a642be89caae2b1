// Finds the rules that could match an internet endpoint, by its address or its port.
//
// Private to rules/match/rule_set. The index only narrows down: callers still test each rule in full. Rules
// with hosts are stored under each of their names. Rules with addresses are stored under each of their
// blocks, and every occurring prefix length is looked up once; those with "${own}" are always offered. Rules
// with few ports are stored under each port. All others are always offered. Filled once, then only read.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
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
        for (const std::string& name : endpoint.names) search_name(name, visit);
        for (const int prefix : endpoint.address.v6 ? prefixes_v6_ : prefixes_v4_) {
            const auto found = blocks_.find(network(endpoint.address, prefix));
            if (found == blocks_.end()) continue;
            for (const std::uint32_t rule : found->second) visit(rule);
        }
    }

private:
    using ByName = std::map<std::string, std::vector<std::uint32_t>, std::less<>>;

    template <typename Visit>
    static void visit_rules(const ByName& all, std::string_view name, Visit visit) {
        const auto found = all.find(name);
        if (found == all.end()) return;
        for (const std::uint32_t rule : found->second) visit(rule);
    }
    template <typename Visit>
    void search_name(std::string_view name, Visit visit) const {
        visit_rules(hosts_, name, visit);
        if (suffixes_.empty()) return;
        for (std::size_t dot = name.find('.'); dot != std::string_view::npos; dot = name.find('.', dot + 1))
            visit_rules(suffixes_, name.substr(dot + 1), visit);
    }

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
    ByName hosts_, suffixes_;
};

}  // namespace callgate::rules
