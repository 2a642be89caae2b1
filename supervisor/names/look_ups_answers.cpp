// Answers to look-ups that were allowed: asked for once, kept for their time, bound, and handed to all who
// wait.
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "base/test_switch.hpp"
#include "base/unique_fd.hpp"
#include "supervisor/host/own_addresses.hpp"
#include "supervisor/names/look_ups.hpp"

namespace callgate::names {

namespace {

using namespace std::chrono_literals;
using rules::Action;

constexpr std::size_t max_known = 4096;
constexpr std::uint32_t max_ttl = 3600;

/// Types that are passed on, for names that are allowed: MX, TXT, SRV, NS, SOA, CAA, NAPTR, TLSA, SSHFP, DS,
/// and CNAME.
constexpr std::array<std::uint16_t, 11> passed_types{15, 16, 33, 2, 6, 257, 35, 52, 44, 43, type_cname};

bool passes(std::uint16_t type) { return std::ranges::find(passed_types, type) != passed_types.end(); }

/// Whether the machine has a route to it: connecting a UDP socket sends nothing.
bool reachable(const rules::IpAddress& address) {
    sockaddr_in6 six{};
    six.sin6_family = AF_INET6;
    six.sin6_port = htons(9);
    std::memcpy(&six.sin6_addr, address.bytes.data(), sizeof six.sin6_addr);
    const UniqueFd socket(::socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    return socket && ::connect(socket.get(), reinterpret_cast<const sockaddr*>(&six), sizeof six) == 0;
}

}  // namespace

void LookUps::resolve(Waiting one) {
    const std::uint16_t type = one.query.type;
    if (type != type_a && type != type_aaaa && !passes(type)) return one.reply(answer(one.query, Code::ok));
    const auto now = Clock::now();
    if (known_.size() >= max_known)
        std::erase_if(known_, [now](const auto& entry) {
            return !entry.second.under_way && entry.second.until <= now;
        });
    const std::pair<std::string, std::uint16_t> key{one.query.name, type};
    if (known_.size() >= max_known && !known_.contains(key))
        return one.reply(answer(one.query, Code::failed));
    Known& known = known_[key];
    if (!known.under_way && known.until > now) return respond(one, known);
    if (known.waiting.size() >= max_waiting) return one.reply(answer(one.query, Code::failed));
    known.waiting.push_back(std::move(one));
    if (known.under_way) return;
    known.under_way = true;
    upstream_.ask(key.first, type, [this, key](Bytes message) { found(key.first, key.second, message); });
}

void LookUps::found(const std::string& name, std::uint16_t type, Bytes message) {
    const auto entry = known_.find({name, type});
    if (entry == known_.end()) return;
    Known& known = entry->second;
    known.under_way = false;
    std::vector<Waiting> waiting = std::exchange(known.waiting, {});
    if (waiting.empty()) return;
    take_found(name, type, known, message);
    for (const Waiting& one : waiting) respond(one, known);
}

void LookUps::take_found(const std::string& name, std::uint16_t type, Known& known, Bytes message) {
    known.until = Clock::now() + 1s;
    known.found = {};
    known.own.clear();
    known.message.assign(message.begin(), message.end());
    if (passes(type)) return;
    auto parsed = parse_answer(message, name, type);
    if (!parsed) return;
    known.found = std::move(*parsed);
    known.until = Clock::now() + std::chrono::seconds(std::clamp<std::uint32_t>(known.found.ttl, 1, max_ttl));
    // Programs should then try the other family.
    if (type == type_aaaa && std::ranges::none_of(known.found.addresses, reachable))
        known.found.addresses.clear();
    if (known.found.addresses.size() > Bindings::max_per_name)
        known.found.addresses.resize(Bindings::max_per_name);
    // Once for all who ask while it counts.
    if (check_enabled("rebinding-own")) known.own = own_among(known.found.addresses);
}

/// An alias is not a name of the address, but a name that is denied stays denied behind one. Asked for each
/// process: what is kept serves agent, tools and nested runs alike.
bool LookUps::denies_alias(const Waiting& one, const Found& found) {
    if (needs_.observation != nullptr || !check_enabled("denied-alias")) return false;
    for (const std::string& alias : found.aliases) {
        Decided decided{.verdict = evaluate(alias, one.asker), .reason = {}};
        if (decided.verdict.action < Action::deny || decided.verdict.rule == nullptr) continue;
        decided.reason =
            "an alias of it leads to " + alias + " (rule " + std::string(decided.verdict.rule->id) + ")";
        decided.verdict.decided_by = rules::DecidedBy::failure;  // no rule speaks of the name that was asked
        decided.verdict.rule = nullptr;
        static_cast<void>(write(one, decided, 0, 0));
        return true;
    }
    return false;
}

/// A server of an allowed name could answer with an address of this machine, whose services a firewall keeps
/// from others.
void LookUps::bind(const std::string& name, const std::vector<rules::IpAddress>& addresses,
                   const std::vector<rules::IpAddress>& own) {
    for (const rules::IpAddress& address : addresses) {
        const bool is_own = std::ranges::find(own, address) != own.end();
        if ((special_use(address) || is_own) && !allows_special(user_rules().rules(), name, address)) {
            bindings_.refuse(name, address);
        } else {
            bindings_.bind(name, address);
        }
    }
}

void LookUps::respond(const Waiting& one, const Known& known) {
    if (passes(one.query.type)) {
        auto message = passed_on(one.query, known.message, one.limit);
        return one.reply(message ? std::move(*message) : answer(one.query, Code::failed));
    }
    const Found& found = known.found;
    if (found.code != Code::ok) {
        const Code code = found.code == Code::no_such_name ? Code::no_such_name : Code::failed;
        return one.reply(answer(one.query, code));
    }
    if (denies_alias(one, found)) return one.reply(answer(one.query, Code::no_such_name));
    std::vector<rules::IpAddress> addresses = found.addresses;
    bind(one.query.name, addresses, known.own);  // each time: what was dropped meanwhile is handed out again
    if (!addresses.empty())
        std::rotate(addresses.begin(),
                    addresses.begin() + static_cast<std::ptrdiff_t>(turn_++ % addresses.size()),
                    addresses.end());
    const auto left = std::chrono::duration_cast<std::chrono::seconds>(known.until - Clock::now()).count();
    one.reply(answer(one.query, Code::ok, addresses,
                     std::min(found.ttl, static_cast<std::uint32_t>(std::max<std::int64_t>(left, 0)))));
}

}  // namespace callgate::names
