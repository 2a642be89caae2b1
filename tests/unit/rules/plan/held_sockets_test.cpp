#include <algorithm>
#include <array>

#include "tests/unit/rules/random_rules.hpp"

using namespace callgate;
using namespace callgate::rules;
using namespace callgate::rules::testing;

namespace {

constexpr std::array<std::uint16_t, 4> some_ports = {0, 9, 53, 54};
constexpr std::array programs = {"", "/bin/sh"};
const IpAddress loopback{{127, 0, 0, 1}, false}, outside{{10, 0, 0, 1}, false};

Rule random_network_rule(Random& random, std::size_t number) {
    constexpr std::array actions = {Action::allow, Action::allow, Action::allow,
                                    Action::deny,  Action::ask,   Action::kill};
    constexpr std::array<OperationSet, 4> operations = {
        OperationSet{Operation::connect}, OperationSet{Operation::bind},
        OperationSet{Operation::connect, Operation::bind}, OperationSet{Operation::connect, Operation::bind}};
    const std::array<std::vector<std::string>, 8> names = {{{"/w/s/**"},
                                                            {"/t/**"},
                                                            {"/w/s/**", "/t/**"},
                                                            {"/w/s/**", "/t/**"},
                                                            {"/w/s/x"},
                                                            {"/**/x"},
                                                            {"@a"},
                                                            {"/r/**"}}};
    Rule made = rule("r" + std::to_string(number), actions[random.below(actions.size())],
                     operations[random.below(operations.size())]);
    if (random.below(2) == 0) {
        made.when.protocol.udp = true;
        if (random.below(3) != 0) made.when.port = {{some_ports[random.below(4)], 53}};
        if (!made.when.port.empty() && made.when.port[0].first > 53) made.when.port[0].last = 54;
        if (random.below(6) == 0) made.when.address = {{loopback, 8}};
    } else {
        made.when.unix_socket = globs(names[random.below(names.size())]);
        made.when.protocol.datagram = random.below(3) == 0;
        made.when.protocol.stream = made.when.protocol.datagram && random.below(2) == 0;
    }
    if (random.below(12) == 0) made.when.program = globs({"/bin/sh"});
    return made;
}

}  // namespace

TEST_CASE("what Landlock holds of sockets is what the rules say, for every rule set") {
    const MemoryTree tree{"/w/s/", "/t/"};
    Random random(24);
    std::size_t held_ports = 0, held_binds = 0, held_sockets = 0, held_datagrams = 0;
    for (int round = 0; round < 6000; ++round) {
        std::vector<Rule> all;
        for (std::size_t count = 1 + random.below(3); count > 0; --count)
            all.push_back(random_network_rule(random, all.size()));
        const RuleSet rules(std::move(all), Action::deny);
        const Plan made = make_plan(
            rules, {.landlock_abi = 10, .record = RecordMode::minimal, .tree = &tree, .reasons = false});
        const auto says = [&](Operation operation, const Object& object, std::string_view program) {
            return rules.evaluate({operation, object, program, {}}).action;
        };
        const auto agrees = [&](const HeldPorts& held, Operation operation) {
            for (const std::uint16_t port : some_ports) {
                const bool granted = held.all || std::ranges::any_of(held.ports, [&](const PortRange& range) {
                                         return range.contains(port);
                                     });
                for (const IpAddress& address : {loopback, outside})
                    for (const char* const program : programs)
                        CHECK((says(operation, Endpoint{address, port, Protocol::udp}, program) ==
                               Action::allow) == granted);
            }
        };
        CAPTURE(round);
        if (made.udp_connect.exact) agrees(made.udp_connect, Operation::connect), ++held_ports;
        if (made.udp_bind.exact) agrees(made.udp_bind, Operation::bind), ++held_binds;
        if (made.sends_held && made.udp) CHECK(made.udp_connect.exact);
        if (made.udp_bind.limited()) {
            CHECK(says(Operation::bind, Endpoint{outside, 0, Protocol::udp}, "") == Action::allow);
        }
        if (!made.sockets_held) {
            CHECK_FALSE((made.sends_held && made.unix_datagram));
            continue;
        }
        ++held_sockets;
        held_datagrams += made.unix_datagram ? 1 : 0;
        for (const UnixType type : {UnixType::stream, UnixType::seqpacket, UnixType::datagram}) {
            if (type == UnixType::datagram && !made.unix_datagram) continue;  // there is no such socket
            for (const char* const name :
                 {"/w/s/x", "/w/s/a/y", "/t/x", "/t/y", "/w/x", "/r/x", "/x", "@a"}) {
                const bool granted = std::ranges::any_of(made.grants, [&](const Grant& one) {
                    return one.operations.contains(Operation::connect) &&
                           std::string_view(name).starts_with(one.path + '/');
                });
                for (const char* const program : programs) {
                    CAPTURE(name);
                    const bool connects =
                        says(Operation::connect, UnixObject{name, type}, program) == Action::allow;
                    CHECK(connects == granted);
                    // A server of the run itself is reached by any name that it may have bound.
                    if (says(Operation::bind, UnixObject{name, type}, program) <= Action::ask)
                        CHECK(connects);
                }
            }
        }
    }
    CHECK(held_ports > 100);
    CHECK(held_binds > 100);
    CHECK(held_sockets > 100);
    CHECK(held_datagrams > 20);
}
