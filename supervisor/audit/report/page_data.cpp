// The contents of a report as the page's script reads them: columns of numbers, and texts by number.

#include <algorithm>
#include <ctime>
#include <ostream>

#include "base/json_writer.hpp"
#include "supervisor/audit/report/page.hpp"

namespace callgate::audit::report {

void append_script_string(Buffer& out, std::string_view text) {
    Buffer whole(text.size() + 16);
    append_json_string(whole, text);
    for (const char one : whole.view()) {
        switch (one) {
            case '<':
                out << "\\u003c";
                break;
            case '>':
                out << "\\u003e";
                break;
            case '&':
                out << "\\u0026";
                break;
            default:
                out << one;
        }
    }
}

namespace {

/// Writes through to the stream before the buffer grows large.
class Json : public JsonWriter {
public:
    Json(std::ostream& stream, Buffer& out) : JsonWriter(out), stream_(stream), out_(out) {}
    Json(const Json&) = delete;
    Json& operator=(const Json&) = delete;
    ~Json() { flush(); }

    /// A text as it may stand in the page's script.
    void text(std::string_view value) { append_script_string(slot(), value); }
    void text(std::string_view name, std::string_view value) {
        key(name);
        text(value);
    }
    void texts(std::string_view name, const std::vector<std::string>& values) {
        list(name, values, [this](const std::string& one) { text(one); });
    }
    /// A number of Strings or of a table; -1 for none.
    void reference(std::uint32_t one) { one == UINT32_MAX ? value(-1) : value(one); }
    void tally(const Tally& calls) { value(calls[0]).value(calls[1]).value(calls[2]); }
    /// A list that may be long; `each` writes one element.
    template <typename Values, typename Each>
    void long_list(std::string_view name, const Values& values, Each each) {
        list(name, values, [&](const auto& one) {
            each(one);
            if (out_.size() > (1U << 16)) flush();
        });
    }

private:
    void flush() {
        stream_ << out_.view();
        out_.clear();
    }
    std::ostream& stream_;
    Buffer& out_;
};

void put_run(Json& json, const Run& run) {
    json.begin_object();
    json.text("name", run.name);
    json.text("mode", run.mode);
    json.text("workdir", run.workdir);
    json.text("version", run.version);
    json.text("kernel", run.kernel);
    json.text("rules", run.rules_sha256);
    json.texts("command", run.command);
    json.texts("profiles", run.profiles);
    json.texts("degraded", run.degraded);
    json.member("landlock", run.landlock_abi).member("started", run.started).member("ended", run.ended);
    json.text("outcome", outcome_text(run));
    json.member("well", ended_well(run))
        .member("exit_code", run.exit_code)
        .member("signal", run.signal)
        .member("duration_ms", run.duration_ms)
        .end_object();
}

/// Numbers of the objects that are paths, in the order of a walk through the tree: '/' sorts before any other
/// character.
std::vector<std::uint32_t> in_tree_order(const Contents& contents) {
    const std::vector<Object>& objects = contents.objects.all();
    std::vector<std::uint32_t> order;
    for (std::uint32_t number = 0; number < objects.size(); ++number) {
        const ObjectKind kind = objects[number].kind;
        const bool path =
            kind == ObjectKind::path || kind == ObjectKind::socket || kind == ObjectKind::beneath;
        if (path && objects[number].text != Object::none) order.push_back(number);
    }
    const auto before = [](char one, char other) {
        const auto weight = [](char byte) { return byte == '/' ? 0 : static_cast<unsigned char>(byte) + 1; };
        return weight(one) < weight(other);
    };
    std::stable_sort(order.begin(), order.end(), [&](std::uint32_t one, std::uint32_t other) {
        const std::string& first = contents.strings.text(objects[one].text);
        const std::string& second = contents.strings.text(objects[other].text);
        return std::lexicographical_compare(first.begin(), first.end(), second.begin(), second.end(), before);
    });
    return order;
}

void put_objects(Json& json, const Contents& contents) {
    json.new_line();
    json.long_list("objects", contents.objects.all(), [&](const Object& object) {
        unsigned operations = 0;
        for (const rules::Operation one : object.operations) operations |= 1U << static_cast<unsigned>(one);
        json.begin_list();
        json.reference(object.text);
        json.reference(object.second);
        json.reference(object.host);
        json.value(static_cast<unsigned>(object.kind)).value(operations);
        json.tally(object.calls);
        json.end_list();
    });
    json.new_line();
    json.long_list("tree", in_tree_order(contents), [&](std::uint32_t number) { json.value(number); });
}

void put_processes(Json& json, const Contents& contents, std::int64_t base) {
    json.new_line();
    json.long_list("processes", contents.processes.all(), [&](const Process& process) {
        json.begin_list().value(process.pid).value(process.parent_pid);
        json.reference(process.parent);
        json.value(process.run)
            .value(process.programs)
            .value(process.first - base)
            .value(process.last - base);
        json.tally(process.calls);
        json.end_list();
    });
}

void put_calls(Json& json, const Contents& contents, std::int64_t base) {
    json.new_line();
    json.long_list("kinds", contents.calls.kinds(), [&](const CallKind& kind) {
        json.begin_list().value(static_cast<unsigned>(kind.outcome));
        for (const std::uint32_t one :
             {kind.verdict, kind.operation, kind.rule, kind.decided_by, kind.mechanism, kind.error,
              kind.reason, kind.program, kind.process, kind.operations})
            json.value(one);
        json.end_list();
    });
    const std::vector<Call>& calls = contents.calls.all();
    json.new_line().begin_object("calls");
    std::int64_t time = base;
    json.long_list("time", calls, [&](const Call& call) {
        json.value(call.time - time);
        time = call.time;
    });
    json.new_line();
    std::uint64_t sequence = 0;
    json.long_list("sequence", calls, [&](const Call& call) {
        json.value(static_cast<std::int64_t>(call.sequence - sequence));
        sequence = call.sequence;
    });
    json.new_line();
    json.long_list("kind", calls, [&](const Call& call) { json.reference(call.kind); });
    json.new_line();
    json.long_list("object", calls, [&](const Call& call) { json.value(call.object); });
    json.new_line();
    json.long_list("count", calls, [&](const Call& call) { json.value(call.count); });
    json.end_object();
}

void put_denials(Json& json, const Contents& contents, std::int64_t base) {
    json.new_line();
    json.long_list("denials", contents.denials.all(), [&](const Denial& denial) {
        json.begin_list().value(static_cast<unsigned>(denial.outcome));
        for (const std::uint32_t one : {denial.verdict, denial.operation, denial.rule, denial.decided_by,
                                        denial.error, denial.reason, denial.program, denial.object})
            json.value(one);
        json.value(denial.count).value(denial.sequence).value(denial.first - base).value(denial.last - base);
        json.text(denial.fix.option);
        json.text(denial.fix.also);
        json.text(denial.fix.note);
        json.end_list();
    });
}

void put_tallies(Json& json, const Contents& contents, std::int64_t base) {
    json.new_line();
    json.list("rules", contents.rules, [&](const auto& rule) {
        json.begin_list().value(rule.first);
        json.tally(rule.second);
        json.end_list();
    });
    json.new_line().begin_object("verdicts");
    for (const auto& [verdict, calls] : contents.verdicts) {
        json.begin_list(verdict);
        json.tally(calls);
        json.end_list();
    }
    json.end_object();
    json.new_line().begin_list("totals");
    json.tally(contents.calls_by_outcome);
    json.end_list();
    json.new_line()
        .begin_object("times")
        .member("start", contents.times.start() - base)
        .member("width", contents.times.width());
    json.list("steps", contents.times.steps(), [&](const Tally& step) {
        json.begin_list();
        json.tally(step);
        json.end_list();
    });
    json.end_object();
}

/// Writes how much of each kind the page leaves out.
void put_cuts(Json& json, const Contents& contents) {
    const Tally& unlisted = contents.processes.all().front().calls;
    json.new_line()
        .begin_object("cut")
        .member("allowed", contents.calls.cut(Outcome::allowed))
        .member("not_allowed", contents.calls.cut(Outcome::refused) + contents.calls.cut(Outcome::would))
        .member("events", contents.calls.events_cut())
        .member("objects", contents.objects.rolled_up())
        .member("denials", contents.denials.cut())
        .member("processes", unlisted[0] + unlisted[1] + unlisted[2])
        .member("runs", contents.runs_cut)
        .member("rules", contents.rules_cut)
        .end_object();
}

/// The time from which the page counts, because small numbers are short.
std::int64_t base_of(const Contents& contents) {
    if (!contents.runs.empty() && contents.runs.front().started != 0) return contents.runs.front().started;
    return contents.calls.all().empty() ? contents.times.start() : contents.calls.all().front().time;
}

}  // namespace

void write_data(std::ostream& stream, const Contents& contents) {
    Buffer out(1U << 17);
    Json json(stream, out);
    const std::int64_t base = base_of(contents);
    json.begin_object().member("format", 1);
    json.text("file", contents.file);
    json.member("records", contents.records)
        .member("bad_lines", contents.bad_lines)
        .member("torn", contents.torn);
    json.text("head", contents.head);
    json.member("made", std::int64_t{::time(nullptr)});
    json.text("by", CALLGATE_VERSION);
    json.member("base", base);
    json.new_line();
    json.list("runs", contents.runs, [&json](const Run& run) { put_run(json, run); });
    put_tallies(json, contents, base);
    put_cuts(json, contents);
    put_denials(json, contents, base);
    put_processes(json, contents, base);
    put_objects(json, contents);
    put_calls(json, contents, base);
    json.new_line();
    json.long_list("strings", contents.strings.all(), [&json](const std::string& one) { json.text(one); });
    json.end_object();
}

}  // namespace callgate::audit::report
