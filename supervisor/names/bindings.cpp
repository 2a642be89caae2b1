#include "supervisor/names/bindings.hpp"

#include <algorithm>
#include <array>
#include <ctime>

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

Bindings::Bindings()
    : Bindings([] {
          timespec now{};
          ::clock_gettime(CLOCK_BOOTTIME, &now);
          return static_cast<std::int64_t>(now.tv_sec) * 1'000'000'000 + now.tv_nsec;
      }) {}

void Bindings::drop(All::value_type& bound) {
    const rules::IpAddress address = bound.first;
    for (const std::string& name : *bound.second.names) {
        const auto all = by_name_.find(name);
        if (all == by_name_.end()) continue;
        all->second.remove(address);
        if (all->second.empty()) by_name_.erase(all);
    }
    bound.second.dropped = true;
    former_.splice(former_.end(), uses_, bound.second.use);
    if (former_.size() <= max_addresses) return;
    bound_.erase(former_.front());
    former_.pop_front();
}

void Bindings::use(Bound& bound) {
    bound.used_ns = clock_();
    uses_.splice(uses_.end(), bound.dropped ? former_ : uses_, bound.use);
    bound.dropped = false;
}

void Bindings::make_room(const std::string& name) {
    const auto own = by_name_.find(name);
    if (own == by_name_.end() || own->second.size() < max_per_name) return;
    const auto used = [this](const rules::IpAddress& one) { return bound_.find(one)->second.used_ns; };
    drop(*bound_.find(*std::ranges::min_element(own->second, {}, used)));
}

void Bindings::bind(const std::string& name, const rules::IpAddress& given) {
    const rules::IpAddress address = given.v6 ? rules::make_ipv6(given.bytes) : given;
    const std::lock_guard guard(lock_);
    refused_.erase(address);
    auto known = bound_.find(address);
    const bool bound = known != bound_.end() && !known->second.dropped;
    if (bound && std::ranges::find(*known->second.names, name) != known->second.names->end())
        return use(known->second);
    if (bound && known->second.names->size() >= max_names) return;
    make_room(name);
    if (!bound && uses_.size() >= max_addresses) drop(*bound_.find(uses_.front()));
    known = bound_.find(address);  // a drop may have forgotten it
    if (known == bound_.end())
        known = bound_.emplace(address, Bound{.names = {}, .use = uses_.insert(uses_.end(), address)}).first;
    auto names = std::make_shared<std::vector<std::string>>();
    if (bound) *names = *known->second.names;
    names->push_back(name);
    known->second.names = std::move(names);
    use(known->second);
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
    if (found->second.dropped) return check_enabled("former-names") ? nullptr : found->second.names;
    if (clock_() - found->second.used_ns > max_unused_ns) {
        drop(*found);
        return nullptr;
    }
    use(found->second);
    return found->second.names;
}

Bindings::Names Bindings::former_names(const rules::IpAddress& address) const {
    const std::lock_guard guard(lock_);
    const auto found = bound_.find(address);
    return found == bound_.end() || !found->second.dropped ? nullptr : found->second.names;
}

std::string Bindings::refused_name(const rules::IpAddress& address) const {
    const std::lock_guard guard(lock_);
    const auto found = refused_.find(address);
    return found == refused_.end() ? "" : found->second;
}

}  // namespace callgate::names
