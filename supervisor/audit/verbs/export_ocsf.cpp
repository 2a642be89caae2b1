// Events of the Open Cybersecurity Schema Framework 1.5.0, with the profiles security_control and host.
//
// File operations become File System Activity. Execute, and a run's beginning and end, become Process
// Activity. Connect and bind become Network Activity. Records about the log or about questions become Base
// Events. callgate's own fields are under `unmapped`.
#include "supervisor/audit/verbs/export.hpp"

namespace callgate::audit {

namespace {

struct Class {
    int uid = 0, category = 0, activity = 99;
    const char* name = "Base Event";
};

bool is_rename(const Entry& entry) { return entry.action.starts_with("rename"); }

Class class_of(const Entry& entry) {
    const std::string& operation = entry.operation;
    if (entry.action == "run.start") return {1007, 1, 1, "Process Activity"};
    if (entry.action == "run.end") return {1007, 1, 2, "Process Activity"};
    if (!entry.decision()) return {};
    if (operation == "execute") return {1007, 1, 1, "Process Activity"};
    if (operation == "connect") return {4001, 4, was_refused(entry) ? 5 : 1, "Network Activity"};
    if (operation == "bind") return {4001, 4, 7, "Network Activity"};
    const int activity = is_rename(entry)        ? 5
                         : operation == "read"   ? 2
                         : operation == "modify" ? 3
                         : operation == "create" ? 1
                         : operation == "delete" ? 4
                                                 : 6;
    return {1001, 1, activity, "File System Activity"};
}

std::string base_name(const std::string& path) {
    const std::string name = path.substr(path.rfind('/') + 1);
    return name.empty() ? path : name;
}

ExportJson file_of(const std::string& path) {
    return {{"name", path.empty() ? "?" : base_name(path)}, {"path", path}, {"type_id", 0}};
}

ExportJson process_of(const ExportedRecord& one) {
    ExportJson process = {{"pid", one.entry.pid}};
    if (const std::string id = export_text(one.record, {"process", "entity_id"}); !id.empty())
        process["uid"] = id;
    if (!one.entry.program.empty()) {
        process["name"] = base_name(one.entry.program);
        process["file"] = file_of(one.entry.program);
    }
    if (one.entry.parent != 0) process["parent_process"] = {{"pid", one.entry.parent}};
    return process;
}

ExportJson metadata_of(const ExportedRecord& one) {
    return {{"version", "1.5.0"},
            {"product", {{"name", "callgate"}, {"vendor_name", "callgate"}}},
            {"profiles", {"security_control", "host"}},
            {"log_name", "callgate.audit"},
            {"uid", one.entry.run + "-" + std::to_string(one.entry.sequence)},
            {"correlation_uid", one.entry.run},
            {"sequence", one.entry.sequence},
            {"original_time", one.entry.time}};
}

/// Informational, Low, Medium, High.
int severity_of(const Entry& entry) {
    if (!entry.decision() || entry.verdict == "allow") return 1;
    if (!was_refused(entry)) return 2;
    return entry.verdict == "kill" ? 4 : 3;
}

void add_control(ExportJson& event, const Entry& entry) {
    const bool refused = was_refused(entry), allowed = entry.verdict == "allow";
    event["action_id"] = refused ? 2 : allowed ? 1 : 3;        // Denied, Allowed, Observed
    event["disposition_id"] = refused ? 2 : allowed ? 1 : 17;  // Blocked, Allowed, Logged
    event["status_id"] = refused ? 2 : 0;                      // Failure; else the result is not known yet
    if (!entry.error.empty()) event["status_code"] = entry.error;
    if (!entry.reason.empty()) event["status_detail"] = entry.reason;
    if (!entry.rule.empty()) event["policy"] = {{"name", entry.rule}, {"is_applied", true}};
}

void add_network(ExportJson& event, const ExportedRecord& one) {
    const ExportJson none;
    const auto found = one.record.find("destination");
    const ExportJson& destination = found == one.record.end() ? none : *found;
    ExportJson end;
    if (const std::string ip = export_text(destination, {"ip"}); !ip.empty()) end["ip"] = ip;
    if (destination.is_object() && destination.contains("port")) end["port"] = destination["port"];
    if (const std::string domain = export_text(destination, {"domain"}); !domain.empty())
        end["hostname"] = domain;
    if (const std::string name = export_text(destination, {"address"}); !name.empty()) end["name"] = name;
    if (end.is_null()) end["name"] = "?";
    event["dst_endpoint"] = std::move(end);
    const std::string transport = export_text(one.record, {"network", "transport"});
    ExportJson connection = {{"direction_id", one.entry.operation == "connect" ? 2 : 0}};
    if (!transport.empty()) connection["protocol_name"] = transport;
    if (transport == "tcp" || transport == "udp") connection["protocol_num"] = transport == "tcp" ? 6 : 17;
    event["connection_info"] = std::move(connection);
}

void add_object(ExportJson& event, const ExportedRecord& one, int class_uid) {
    if (class_uid == 1001) {
        event["file"] = file_of(one.entry.object);
        if (const std::string inode = export_text(one.record, {"file", "inode"}); !inode.empty())
            event["file"]["uid"] = inode;
        if (const std::string second = export_text(one.record, {"callgate", "second_object"});
            !second.empty())
            event["file_result"] = file_of(second);
    } else if (class_uid == 4001) {
        add_network(event, one);
    } else if (class_uid == 1007) {
        // execve keeps the process, so the new program has its pid.
        event["process"] = process_of(one);
        if (one.entry.operation == "execute") {
            event["process"]["name"] = base_name(one.entry.object);
            event["process"]["file"] = file_of(one.entry.object);
        }
        if (one.entry.exit_code) event["exit_code"] = *one.entry.exit_code;
    }
}

class Ocsf : public Exporter {
public:
    using Exporter::Exporter;

    void add(const ExportedRecord& one) override {
        const Class kind = class_of(one.entry);
        ExportJson event = {{"class_uid", kind.uid},
                            {"class_name", kind.name},
                            {"category_uid", kind.category},
                            {"activity_id", kind.activity},
                            {"type_uid", kind.uid * 100 + kind.activity},
                            {"time", one.time_ns / 1'000'000},
                            {"severity_id", severity_of(one.entry)},
                            {"message", one.message},
                            {"metadata", metadata_of(one)}};
        event["device"] = {{"type_id", 0}, {"hostname", one.host.empty() ? "unknown" : one.host}};
        event["actor"] = {{"process", process_of(one)}};
        if (const std::string user = export_text(one.record, {"user", "id"}); !user.empty())
            event["actor"]["user"] = {{"uid", user}};
        if (one.entry.decision()) add_control(event, one.entry);
        add_object(event, one, kind.uid);
        event["unmapped"] = ExportJson::object();
        for (const char* name : {"callgate", "integrity"})
            if (const auto found = one.record.find(name); found != one.record.end())
                event["unmapped"][name] = *found;
        write(event);
    }
};

}  // namespace

std::unique_ptr<Exporter> ocsf_exporter(std::ostream& out) { return std::make_unique<Ocsf>(out); }

}  // namespace callgate::audit
