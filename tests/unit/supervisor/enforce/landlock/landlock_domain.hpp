// Children in Landlock domains of plans, for tests.
#pragma once

#include <doctest/doctest.h>
#include <sys/prctl.h>

#include <cerrno>
#include <functional>
#include <string>
#include <vector>

#include "base/process/capabilities.hpp"
#include "supervisor/enforce/landlock/recipe.hpp"
#include "tests/unit/agent/guarded_run.hpp"
#include "tests/unit/in_child.hpp"

namespace callgate::agent::test {

using namespace callgate::enforce;

inline rules::Plan plan(int abi, std::vector<rules::Grant> grants) {
    rules::Plan plan;
    plan.landlock_abi = abi;
    plan.grants = std::move(grants);
    return plan;
}

inline rules::Grant grant(std::string path, bool directory, rules::OperationSet operations) {
    rules::Grant grant;
    grant.path = std::move(path);
    grant.directory = directory;
    grant.operations = operations;
    return grant;
}

using tests::in_child;

inline int in_domain(const UniqueFd& ruleset, const std::function<int()>& body) {
    return in_child([&] {
        if (!drop_capabilities() || ::prctl(PR_SET_NO_NEW_PRIVS, 1UL, 0UL, 0UL, 0UL) != 0) return 200;
        if (::syscall(SYS_landlock_restrict_self, ruleset.get(), 0U) != 0) return 201;
        return body();
    });
}

inline int result_of(int returned) { return returned < 0 ? errno : 0; }

inline UniqueFd ruleset_of(const rules::Plan& plan) {
    std::vector<std::string> left_out;
    auto made = RulesetRecipe(plan).parts().make(&left_out);
    CHECK(left_out.empty());
    return std::move(made.value());
}

inline bool skipped_below(int abi) {
    if (kernel_landlock_abi() >= abi) return false;
    MESSAGE("skipped: this kernel's Landlock ABI is " << kernel_landlock_abi() << ", " << abi
                                                      << " is needed");
    return true;
}

}  // namespace callgate::agent::test
