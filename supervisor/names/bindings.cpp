#include "supervisor/names/bindings.hpp"

#include <algorithm>
#include <array>

#include "base/test_switch.hpp"
#include "rules/model/address.hpp"

namespace callgate::names {

namespace {

/// IANA's special-purpose addresses, and the addresses of cloud metadata that lie elsewhere.
const std::vector<rules::Cidr>& special_blocks() {
    static const std::vector<rules::Cidr> blocks = [] {
        std::vector<rules::Cidr> all;
        for (const char* const text :
             {"0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12",
              "192.0.0.0/24", "192.168.0.0/16", "198.18.0.0/15", "224.0.0.0/4", "240.0.0.0/4",
              "168.63.129.16", "::/96", "64:ff9b:1::/48", "100::/64", "fc00::/7", "fe80::/10", "fec0::/10",
              "ff00::/8"})
            if (const auto block = rules::parse_cidr(text)) all.push_back(*block);
        return all;
    }();
    return blocks;
}

rules::IpAddress four_bytes(const rules::IpAddress& address, std::size_t at) {
    rules::IpAddress four;
    std::copy_n(address.bytes.begin() + static_cast<std::ptrdiff_t>(at), 4, four.bytes.begin());
    return four;
}

/// The IPv4 address that an IPv6 address leads to: mapped, or through a translator (NAT64, 6to4).
std::optional<rules::IpAddress> embedded(const rules::IpAddress& address) {
    static const auto mapped = rules::Cidr{{{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff}, true}, 96};
    static const auto translated = rules::Cidr{{{0, 0x64, 0xff, 0x9b}, true}, 96};
    static const auto relayed = rules::Cidr{{{0x20, 0x02}, true}, 16};
    if (mapped.contains(address) || translated.contains(address)) return four_bytes(address, 12);
    if (relayed.contains(address)) return four_bytes(address, 2);
    return std::nullopt;
}

}  // namespace

bool special_use(const rules::IpAddress& address) {
    if (!check_enabled("rebinding")) return false;
    if (const auto inside = embedded(address)) return special_use(*inside);
    return std::ranges::any_of(special_blocks(),
                               [&](const rules::Cidr& block) { return block.contains(address); });
}

bool allows_special(std::span<const rules::Rule> rules, std::string_view name,
                    const rules::IpAddress& address) {
    return std::ranges::any_of(rules, [&](const rules::Rule& rule) {
        const rules::Conditions& when = rule.when;
        return rule.action < rules::Action::deny && rule.operations.contains(rules::Operation::connect) &&
               std::ranges::any_of(when.host, [&](const auto& host) { return host.matches(name); }) &&
               std::ranges::any_of(when.address, [&](const auto& block) { return block.contains(address); });
    });
}

std::size_t Bindings::Hash::operator()(const rules::IpAddress& address) const {
    return std::hash<std::string_view>{}(
        std::string_view(reinterpret_cast<const char*>(address.bytes.data()), address.bytes.size()));
}

void Bindings::forget(const rules::IpAddress& address) {
    const auto found = bound_.find(address);
    if (found == bound_.end()) return;
    for (const std::string& name : *found->second.names) {
        const auto all = by_name_.find(name);
        if (all == by_name_.end()) continue;
        all->second.remove(address);
        if (all->second.empty()) by_name_.erase(all);
    }
    uses_.erase(found->second.use);
    bound_.erase(found);
}

void Bindings::make_room(const std::string& name) {
    if (const auto own = by_name_.find(name); own != by_name_.end() && own->second.size() >= max_per_name)
        forget(rules::IpAddress(own->second.front()));
    if (bound_.size() >= max_addresses) forget(rules::IpAddress(uses_.front()));
}

void Bindings::bind(const std::string& name, const rules::IpAddress& given) {
    const rules::IpAddress address = given.v6 ? rules::make_ipv6(given.bytes) : given;
    const std::lock_guard guard(lock_);
    refused_.erase(address);
    if (const auto known = bound_.find(address); known != bound_.end()) {
        const std::vector<std::string>& names = *known->second.names;
        if (std::ranges::find(names, name) != names.end() || names.size() >= max_names) return;
        auto more = std::make_shared<std::vector<std::string>>(names);
        more->push_back(name);
        known->second.names = std::move(more);
        by_name_[name].push_back(address);
        return;
    }
    make_room(name);
    const auto use = uses_.insert(uses_.end(), address);
    bound_.emplace(address, Bound{std::make_shared<const std::vector<std::string>>(1, name), use});
    by_name_[name].push_back(address);
}

void Bindings::refuse(const std::string& name, const rules::IpAddress& given) {
    const rules::IpAddress address = given.v6 ? rules::make_ipv6(given.bytes) : given;
    const std::lock_guard guard(lock_);
    if (refused_.size() >= max_per_name) refused_.clear();
    refused_[address] = name;
}

Bindings::Names Bindings::names_of(const rules::IpAddress& address) {
    const std::lock_guard guard(lock_);
    const auto found = bound_.find(address);
    if (found == bound_.end()) return nullptr;
    uses_.splice(uses_.end(), uses_, found->second.use);
    return found->second.names;
}

std::string Bindings::refused_name(const rules::IpAddress& address) const {
    const std::lock_guard guard(lock_);
    const auto found = refused_.find(address);
    return found == refused_.end() ? "" : found->second;
}

}  // namespace callgate::names
