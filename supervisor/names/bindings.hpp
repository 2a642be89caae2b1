// The names of addresses: which look-up gave an address to the run.
//
// Name servers, and so perhaps an attacker, choose the addresses. A name that is allowed must not open an
// address that only this machine or its network can reach (rebinding). So addresses for special use are
// handed out but not bound, unless a rule names host and address. An address stays bound for the run:
// programs keep addresses far longer than servers say. The number of addresses is limited; the one that was
// longest unused goes first. One that was dropped so, or unused for a day, keeps its names apart: they must
// be looked up again before they count (LookUps::look_up_again). Any thread.
#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "rules/match/rule_set.hpp"
#include "rules/model/request.hpp"

namespace callgate::names {

/// Whether an address is for special use: loopback, private, shared, link-local, unique-local, multicast,
/// this network, or cloud metadata. IPv6 forms that hold such an IPv4 address count too.
[[nodiscard]] bool special_use(const rules::IpAddress& address);

/// Whether a rule that allows or asks names the host and, by address too, this address.
[[nodiscard]] bool allows_special(std::span<const rules::Rule> rules, std::string_view name,
                                  const rules::IpAddress& address);

class Bindings {
public:
    static constexpr std::size_t max_addresses = 16'384, max_per_name = 256, max_names = 64;
    static constexpr std::int64_t max_unused_ns = 24 * 3600 * std::int64_t{1'000'000'000};

    using Names = std::shared_ptr<const std::vector<std::string>>;
    /// A clock that goes on while the machine sleeps, in nanoseconds.
    using Clock = std::function<std::int64_t()>;

    Bindings();
    explicit Bindings(Clock clock) : clock_(std::move(clock)) {}

    void bind(const std::string& name, const rules::IpAddress& address);
    /// Remembers why an address that `name` was answered with belongs to no name.
    void refuse(const std::string& name, const rules::IpAddress& address);

    /// The names of an address; null if it has none.
    [[nodiscard]] Names names_of(const rules::IpAddress& address);
    /// The names that an address had before it was dropped; null if there are none.
    [[nodiscard]] Names former_names(const rules::IpAddress& address) const;
    /// The name that was answered with this address for special use; "" if there is none.
    [[nodiscard]] std::string refused_name(const rules::IpAddress& address) const;

private:
    struct Hash {
        std::size_t operator()(const rules::IpAddress& address) const;
    };
    struct Bound {
        Names names;
        std::list<rules::IpAddress>::iterator use;  // in `uses_`, or in `former_`
        std::int64_t used_ns = 0;
        bool dropped = false;
    };
    using All = std::unordered_map<rules::IpAddress, Bound, Hash>;
    void make_room(const std::string& name);
    void drop(All::value_type& bound);
    void use(Bound& bound);

    Clock clock_;
    mutable std::mutex lock_;
    All bound_;
    std::unordered_map<rules::IpAddress, std::string, Hash> refused_;
    std::unordered_map<std::string, std::list<rules::IpAddress>> by_name_;
    std::list<rules::IpAddress> uses_;    // longest unused first
    std::list<rules::IpAddress> former_;  // first dropped first; as many as are bound
};

}  // namespace callgate::names
