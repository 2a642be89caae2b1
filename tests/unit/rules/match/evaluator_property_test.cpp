// Compares the indexed evaluator with a second one, which tests rule by rule.
#include <doctest/doctest.h>

#include <algorithm>
#include <random>

#include "rules/match/rule_set.hpp"

using namespace callgate;
using namespace callgate::rules;

namespace {

class Maker {
public:
    explicit Maker(unsigned seed) : random_(seed) {}

    unsigned below(unsigned limit) { return static_cast<unsigned>(random_() % limit); }
    bool chance(unsigned percent) { return below(100) < percent; }

    std::string path() {
        static const std::vector<std::string> names = {"a", "b", ".env", "ab"};
        std::string text;
        for (unsigned depth = below(5); depth > 0; --depth) text += "/" + names[below(4)];
        return text.empty() ? "/" : text;
    }
    std::string socket_name() { return chance(50) ? path() : "@" + path().substr(below(2)); }

    Glob path_glob() {
        static const std::vector<std::string> tails = {"",   "/**",       "/*",     "/**/.env",
                                                       "/?", "/{a,b}/**", "/[ab]*", "/**/a/**"};
        if (chance(10)) return compiled("**/" + std::string(chance(50) ? "a" : ".env"), GlobKind::path);
        const std::string head = path();
        return compiled((head == "/" ? "" : head) + (head == "/" ? "/**" : tails[below(8)]), GlobKind::path);
    }
    Glob socket_glob() {
        static const std::vector<std::string> names = {"@*", "@a", "@/a/**", "@{a,b}*", "*"};
        return chance(50) ? path_glob() : compiled(names[below(5)], GlobKind::text);
    }

    IpAddress address() {
        IpAddress made;
        made.v6 = chance(40);
        made.bytes[0] = static_cast<std::uint8_t>(below(3));
        made.bytes[made.v6 ? 15 : 3] = static_cast<std::uint8_t>(below(3));
        return made;
    }
    Cidr block() {
        static const std::vector<int> prefixes = {0, 6, 7, 8, 31, 32};
        Cidr made{address(), prefixes[below(6)]};
        if (made.address.v6 && made.prefix > 8) made.prefix += 96;
        return made;
    }
    PortRange ports() {
        const auto first = static_cast<std::uint16_t>(below(4));
        return {first, static_cast<std::uint16_t>(chance(20) ? 65535 : first + below(3))};
    }

    Protocols protocols() {
        Protocols made;
        if (chance(70)) return made;
        made.tcp = chance(40);
        made.udp = chance(40);
        made.stream = chance(40);
        made.datagram = chance(40);
        return made;
    }

    Conditions conditions() {
        Conditions made;
        if (chance(60)) fill(made.path, [&] { return path_glob(); });
        if (chance(15))
            fill(made.host, [&] { return chance(50) ? HostPattern{"h", false} : HostPattern{"*.s", true}; });
        if (chance(15)) fill(made.address, [&] { return block(); });
        made.run_server = !made.address.empty() && chance(50);
        if (chance(15)) fill(made.port, [&] { return ports(); });
        if (chance(20)) fill(made.unix_socket, [&] { return socket_glob(); });
        if (chance(15)) fill(made.program, [&] { return path_glob(); });
        if (chance(10)) made.argv.emplace(1, compiled(chance(50) ? "**" : "a", GlobKind::text));
        made.protocol = protocols();
        return made;
    }

    Rule rule() {
        Rule made;
        made.action = static_cast<Action>(below(4));
        made.operations = OperationSet::from_bits(static_cast<int>(below(256)));
        // Mostly conditions of one kind, so that most rules can match something.
        made.when = conditions();
        if (chance(75)) {
            made.when.unix_socket.clear();
            if (!made.when.path.empty())
                made.when.host.clear(), made.when.address.clear(), made.when.port.clear(),
                    made.when.run_server = false;
        }
        if (chance(15)) made.except = conditions();
        return made;
    }

    Request request(std::string& bytes, std::string& program, std::vector<std::string>& arguments) {
        program = path();
        arguments.assign(below(3), chance(50) ? "a" : "b");
        const unsigned kind = below(4);
        bytes = kind == 3 ? socket_name() : path();
        Object object = FileObject{bytes, chance(10)};
        if (kind == 2) {
            static const std::vector<std::string> names{"h", "a.s", "s", "x"};
            object =
                Endpoint{address(), static_cast<std::uint16_t>(below(6)), static_cast<Protocol>(below(2)),
                         std::span(names).subspan(below(4), below(2)), chance(50)};
        }
        if (kind == 3) object = UnixObject{bytes, static_cast<UnixType>(below(3))};
        const OperationSet possible = kind < 2 ? file_operations : network_operations;
        return {OperationSet::from_bits(static_cast<int>(below(256))) & possible, object, program, arguments};
    }

private:
    static Glob compiled(const std::string& pattern, GlobKind kind) {
        const auto made = Glob::compile(pattern, kind);
        REQUIRE_MESSAGE(made.has_value(), pattern << ": " << made.error().text);
        return *made;
    }
    template <typename List, typename Make>
    void fill(List& list, Make make) {
        for (unsigned count = 1 + below(2); count > 0; --count) list.push_back(make());
    }

    std::mt19937 random_;
};

bool any(const std::vector<Glob>& globs, std::string_view text) {
    for (const Glob& glob : globs) {
        if (glob.matches(text)) return true;
    }
    return false;
}

/// Tests each present condition by itself; a condition of another kind of object cannot hold.
bool naive_holds(const Conditions& when, const Request& request, Operation operation) {
    const auto* file = std::get_if<FileObject>(&request.object);
    const auto* to = std::get_if<Endpoint>(&request.object);
    const auto* socket = std::get_if<UnixObject>(&request.object);
    if (!when.program.empty() && !any(when.program, request.program)) return false;
    if (when.argv) {
        if (operation != Operation::execute) return false;
        const bool everything = when.argv->front().text() == "**";
        if (!everything && !(request.arguments.size() == 1 && request.arguments[0] == "a")) return false;
    }
    bool host = when.host.empty();
    bool address = when.address.empty();
    bool port = when.port.empty();
    if (to != nullptr) {
        for (const HostPattern& one : when.host) {
            for (const std::string& name : to->names)
                host = host || (one.suffix ? name.ends_with(one.text.substr(1)) : name == one.text);
        }
        for (const Cidr& one : when.address) address = address || one.contains(to->address);
        for (const PortRange& one : when.port) port = port || one.contains(to->port);
    }
    if (!host || !address || !port) return false;
    if (when.run_server) {
        if (to == nullptr || to->protocol != Protocol::tcp) return false;
        if (!to->of_run && (operation != Operation::bind || to->port != 0)) return false;
    }
    const bool named = !when.path.empty() || !when.unix_socket.empty();
    if (named && to != nullptr) return false;
    if (named && file != nullptr && !any(when.path, file->path)) return false;
    if (named && socket != nullptr && !any(when.unix_socket, socket->name)) return false;
    const Protocols& stated = when.protocol;
    if (!stated.stated()) return true;
    if (to != nullptr) return to->protocol == Protocol::tcp ? stated.tcp : stated.udp;
    if (socket != nullptr) return socket->type == UnixType::datagram ? stated.datagram : stated.stream;
    return !when.path.empty();
}

bool naive_matches(const Rule& rule, const Request& request, Operation operation, Action fallback) {
    if (!rule.operations.contains(operation) || !naive_holds(rule.when, request, operation)) return false;
    if (rule.except && naive_holds(*rule.except, request, operation)) return false;
    const bool opening = rule.action == Action::allow || rule.action == Action::ask;
    if (const auto* file = std::get_if<FileObject>(&request.object)) {
        return !file->unlinked || !opening || (rule.action == Action::ask && fallback == Action::allow);
    }
    if (rule.when.protocol.stated() || !opening) return true;
    if (const auto* to = std::get_if<Endpoint>(&request.object)) return to->protocol == Protocol::tcp;
    return std::get<UnixObject>(request.object).type != UnixType::datagram;
}

struct NaiveVerdict {
    Action action = Action::allow;
    const Rule* rule = nullptr;
};

NaiveVerdict naive_evaluate(const RuleSet& rules, const Request& request) {
    if (request.operations.empty()) return {Action::deny, nullptr};
    const auto* file = std::get_if<FileObject>(&request.object);
    std::optional<NaiveVerdict> strictest;
    for (int index = 0; index < operation_count; ++index) {
        const auto operation = static_cast<Operation>(index);
        if (!request.operations.contains(operation)) continue;
        const bool asks = rules.fallback() == Action::ask;
        const bool refuses = operation == Operation::execute || (file != nullptr && file->unlinked);
        NaiveVerdict one{asks && refuses ? Action::deny : rules.fallback(), nullptr};
        for (const Rule& rule : rules.rules()) {
            if (!naive_matches(rule, request, operation, rules.fallback())) continue;
            if (one.rule == nullptr || rule.action > one.action) one = {rule.action, &rule};
        }
        const auto earlier = [&](const Rule* other) {
            return one.rule != nullptr && (other == nullptr || one.rule < other);
        };
        if (!strictest || one.action > strictest->action ||
            (one.action == strictest->action && earlier(strictest->rule))) {
            strictest = one;
        }
    }
    return *strictest;
}

}  // namespace

TEST_CASE("the indexed evaluator says what rule after rule says") {
    Maker maker(4711);
    const std::vector<Action> fallbacks = {Action::allow, Action::ask, Action::deny};
    std::string bytes;
    std::string program;
    std::vector<std::string> arguments;
    int decided_by_rule = 0;
    for (int round = 0; round < 3000; ++round) {
        std::vector<Rule> all;
        for (unsigned count = maker.below(12); count > 0; --count) all.push_back(maker.rule());
        const RuleSet rules(std::move(all), fallbacks[maker.below(3)]);
        for (int question = 0; question < 20; ++question) {
            const Request request = maker.request(bytes, program, arguments);
            const Verdict found = rules.evaluate(request);
            const NaiveVerdict expected = naive_evaluate(rules, request);
            if (found.action != expected.action || found.rule != expected.rule) {
                FAIL("round " << round << " question " << question << ": " << bytes << " "
                              << name(found.action) << " instead of " << name(expected.action));
            }
            if (found.rule != nullptr) {
                const auto listed = rules.matching(request, found.operation);
                REQUIRE(std::find(listed.begin(), listed.end(), found.rule) != listed.end());
                ++decided_by_rule;
            }
        }
    }
    CHECK(decided_by_rule > 10000);
}
