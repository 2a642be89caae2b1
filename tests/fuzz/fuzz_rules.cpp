// Fuzzes a rule file that an attacker wrote, as `callgate check` reads it: ./dev fuzz.
//
// An input is the text. Besides memory errors and undefined behaviour two things are checked. A rule set
// comes back exactly if there is no error. A message about any text shows nothing on a terminal but itself.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "base/escape.hpp"
#include "rules/plan/plan.hpp"
#include "tests/unit/rules/host_fixture.hpp"

using namespace callgate;
using namespace callgate::rules;

namespace {

[[noreturn]] void broken(const char* what) {
    std::fprintf(stderr, "%s\n", what);
    std::abort();
}

const TestMachine& machine() {
    static const TestMachine made = [] {
        TestMachine machine;
        machine.rule_files["/home/u/work/other.json"] =
            R"({"rules":[{"id":"o","allow":"read","path":"/o"}]})";
        machine.tree.file("/home/u/work/.env");
        machine.tree.file("/home/u/work/deep/er/.env");
        machine.tree.link("/home/u/work/link", "/etc");
        return machine;
    }();
    return made;
}

void plan_and_ask(const LoadedRules& loaded) {
    for (const int abi : {1, 7}) {
        const Plan plan = make_plan(*loaded.rules, {.landlock_abi = abi, .record = RecordMode::contested});
        static_cast<void>(plan);
    }
    for (const char* path : {"/", "/home/u/work/.env", "/etc/passwd"}) decide(loaded, file_operations, path);
    Request request;
    request.operations = Operation::connect;
    request.object = Endpoint{IpAddress{}, 443, Protocol::tcp};
    static_cast<void>(loaded.rules->evaluate(request));
}

}  // namespace

extern "C" int LLVMFuzzerInitialize(int*, char***) { return 0; }

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::string text(reinterpret_cast<const char*>(data), size);
    const LoadedRules loaded = machine().load_text(text, true);
    if (loaded.ok() != (loaded.rules != nullptr)) broken("rules although there is an error, or none without");
    for (const Diagnostic& one : loaded.diagnostics) {
        if (terminal_safe(one.text()) != one.text()) broken("a message that a terminal would obey");
    }
    if (loaded.rules) plan_and_ask(loaded);
    return 0;
}
