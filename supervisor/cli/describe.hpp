// The rules as a run here would have them, and rules as text: for `explain`, `plan` and `check`.
#pragma once

#include <string>

#include "base/json_writer.hpp"
#include "supervisor/cli/rule_options.hpp"

namespace callgate::cli {

/// The rules of a run, compiled without starting it.
class Inspection {
public:
    /// Throws Failure. Prints a note on stderr if `run` would refuse the work directory.
    explicit Inspection(const Arguments& arguments);
    /// Uses the work directory and private directory of a past run; "" as above. Prints nothing.
    Inspection(const Arguments& arguments, const std::string& workdir, const std::string& tmp);
    Inspection(const Inspection&) = delete;
    Inspection& operator=(const Inspection&) = delete;

    [[nodiscard]] const rules::LoadContext& context() const { return context_; }
    [[nodiscard]] CompiledRules compile() const;

private:
    void take_home();

    const Arguments& arguments_;
    Places places_;
    TreeWithTmp tree_;
    rules::LoadContext context_;
};

/// "secrets: deny read,write ~/.ssh/** (profile base:12): credentials"
[[nodiscard]] std::string describe(const rules::Rule& rule);

/// The subject of a rule: its patterns, hosts and ports, in the order of the conditions.
[[nodiscard]] std::string subject(const rules::Conditions& when);

/// {"id":…,"action":…,"operations":…,"subject":…,"source":…,"reason":…,"built_in":…}
void write_rule(JsonWriter& json, const rules::Rule& rule);

}  // namespace callgate::cli
