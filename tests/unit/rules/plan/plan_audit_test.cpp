#include "rules/plan/plan_audit.hpp"
#include "tests/unit/rules/plan/plan_support.hpp"

using namespace callgate;
using namespace callgate::rules;
using namespace callgate::rules::testing;

namespace {

Plan audited(const RuleSet& observed, const RuleSet& enforced, const FileTree& tree,
             RecordMode record = RecordMode::contested) {
    const PlanInput input{.landlock_abi = 7, .record = record, .tree = &tree};
    return make_audit_plan(enforced, make_plan(observed, observing(input)), input);
}

}  // namespace

TEST_CASE("in audit mode the kernel holds what is enforced, and what the rules would decide is notified") {
    const MemoryTree tree{"/w/a", "/home/u/.ssh/id", "/state/callgate/log"};
    const RuleSet observed({rule("work", Action::allow, Operation::read, {"/w/**"})}, Action::deny);
    const RuleSet enforced({rule("own", Action::deny, read_write, {"/state/callgate/**"})}, Action::allow);
    for (const RecordMode record : {RecordMode::minimal, RecordMode::contested, RecordMode::all}) {
        const Plan plan = audited(observed, enforced, tree, record);
        const StaticGrants grants(plan);
        CHECK(grants.allow(Operation::read, "/home/u/.ssh/id"));
        CHECK(grants.allow(Operation::modify, "/w/a"));
        CHECK_FALSE(grants.allow(Operation::read, "/state/callgate/log"));
        CHECK_FALSE(grants.allow(Operation::create, "/state/callgate/new"));
        for (int index = 0; index < operation_count; ++index)
            CHECK(plan.notified.contains(static_cast<Operation>(index)));
        CHECK(plan.udp);
        CHECK(plan.unix_datagram);
        CHECK(plan.tcp_connect.all);
        CHECK_FALSE(plan.unix_closed);
        CHECK(plan.record == record);
    }
}

TEST_CASE(
    "in audit mode only what the rules do not open of datagrams is notified under rules that allow all") {
    const MemoryTree tree{"/w/a"};
    const RuleSet all({}, Action::allow);
    const Plan plan = audited(all, all, tree);
    CHECK(plan.notified == OperationSet{Operation::connect, Operation::bind});
}

TEST_CASE("a datagram's object comes to be only where a rule opens its kind of socket") {
    const RuleSet closed({}, Action::allow);
    CHECK_FALSE(lets_exist(closed, Endpoint{{}, 53, Protocol::udp}));
    CHECK_FALSE(lets_exist(closed, UnixObject{"/s", UnixType::datagram}));
    CHECK(lets_exist(closed, Endpoint{}));
    CHECK(lets_exist(closed, UnixObject{"/s", UnixType::seqpacket}));
    CHECK(lets_exist(closed, FileObject{"/s", false}));
}
