// Documents of the Elastic Common Schema 8.11. The log's lines nearly have this form. Fields that ECS lacks,
// the chain's included, go under `callgate`: ECS leaves custom field sets to its users.
#include "supervisor/audit/verbs/export.hpp"

namespace callgate::audit {

namespace {

class Ecs : public Exporter {
public:
    using Exporter::Exporter;

    void add(const ExportedRecord& one) override {
        ExportJson document = one.record;
        document["message"] = one.message;
        ExportJson& event = document["event"];
        event["module"] = "callgate";
        event["dataset"] = "callgate.audit";
        event["provider"] = "callgate";
        if (!one.host.empty()) {
            ExportJson& host = document["host"];
            if (!host.is_object()) host = ExportJson::object();
            host["hostname"] = one.host;
        }
        if (const auto chain = document.find("integrity"); chain != document.end()) {
            document["callgate"]["integrity"] = *chain;
            document.erase("integrity");
        }
        // If a failure decided in place of a rule, the rule has no name.
        if (const auto rule = document.find("rule");
            rule != document.end() && export_text(*rule, {"name"}).empty())
            document.erase("rule");
        write(document);
    }
};

}  // namespace

std::unique_ptr<Exporter> ecs_exporter(std::ostream& out) { return std::make_unique<Ecs>(out); }

}  // namespace callgate::audit
