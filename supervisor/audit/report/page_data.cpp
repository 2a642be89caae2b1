// The contents of a report as the page's script reads them: columns of numbers, and texts by number.

#include <algorithm>
#include <ctime>
#include <functional>
#include <ostream>

#include "base/escape.hpp"
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

/// Writes through to the stream before it grows large.
class Json {
public:
    explicit Json(std::ostream& out) : stream_(out) {}
    ~Json() { flush(); }
    Json(const Json&) = delete;
    Json& operator=(const Json&) = delete;

    Json& raw(std::string_view text) {
        out_ << text;
        return *this;
    }
    Json& text(std::string_view value) {
        append_script_string(out_, value);
        return *this;
    }
    template <std::integral Number>
    Json& number(Number value) {
        out_ << value;
        return *this;
    }
    /// A number of Strings or of a table; -1 for none.
    Json& reference(std::uint32_t value) { return value == UINT32_MAX ? raw("-1") : number(value); }
    /// "[" … "]" around `each` of `values`, with commas.
    template <typename Values, typename Each>
    Json& list(const Values& values, Each each) {
        raw("[");
        bool first = true;
        for (const auto& value : values) {
            if (!first) raw(",");
            first = false;
            each(value);
            if (out_.size() > (1U << 16)) flush();
        }
        return raw("]");
    }
    Json& texts(const std::vector<std::string>& values) {
        return list(values, [this](const std::string& one) { text(one); });
    }
    Json& tally(const Tally& calls) {
        return number(calls[0]).raw(",").number(calls[1]).raw(",").number(calls[2]);
    }

private:
    void flush() {
        stream_ << out_.view();
        out_.clear();
    }
    std::ostream& stream_;
    Buffer out_{1U << 17};
};

void put_run(Json& json, const Run& run) {
    const auto number = [&json](std::string_view name, const auto& value) {
        json.raw(name);
        value ? json.number(*value) : json.raw("null");
    };
    json.raw("{\"name\":").text(run.name).raw(",\"mode\":").text(run.mode);
    json.raw(",\"workdir\":").text(run.workdir).raw(",\"version\":").text(run.version);
    json.raw(",\"kernel\":").text(run.kernel).raw(",\"rules\":").text(run.rules_sha256);
    json.raw(",\"command\":").texts(run.command).raw(",\"profiles\":").texts(run.profiles);
    json.raw(",\"degraded\":").texts(run.degraded).raw(",\"landlock\":").number(run.landlock_abi);
    json.raw(",\"started\":").number(run.started).raw(",\"ended\":").number(run.ended);
    json.raw(",\"outcome\":").text(outcome_text(run));
    json.raw(",\"well\":").raw(ended_well(run) ? "true" : "false");
    number(",\"exit_code\":", run.exit_code);
    number(",\"signal\":", run.signal);
    json.raw(",\"duration_ms\":").number(run.duration_ms).raw("}");
}

void put_objects(Json& json, const Contents& contents) {
    const std::vector<Object>& objects = contents.objects.all();
    json.raw(",\n\"objects\":").list(objects, [&](const Object& object) {
        unsigned operations = 0;
        for (const rules::Operation one : object.operations) operations |= 1U << static_cast<unsigned>(one);
        json.raw("[").reference(object.text).raw(",").reference(object.second).raw(",");
        json.reference(object.host).raw(",").number(static_cast<unsigned>(object.kind)).raw(",");
        json.number(operations).raw(",").tally(object.calls).raw("]");
    });
    // In the order of a walk through the tree: '/' before any other character.
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
    json.raw(",\n\"tree\":").list(order, [&](std::uint32_t number) { json.number(number); });
}

void put_processes(Json& json, const Contents& contents, std::int64_t base) {
    json.raw(",\n\"processes\":").list(contents.processes.all(), [&](const Process& process) {
        json.raw("[").number(process.pid).raw(",").number(process.parent_pid).raw(",");
        json.reference(process.parent).raw(",").number(process.run).raw(",");
        json.list(process.programs, [&](std::uint32_t program) { json.number(program); });
        json.raw(",").number(process.first - base).raw(",").number(process.last - base).raw(",");
        json.tally(process.calls).raw("]");
    });
}

void put_calls(Json& json, const Contents& contents, std::int64_t base) {
    json.raw(",\n\"kinds\":").list(contents.calls.kinds(), [&](const CallKind& kind) {
        json.raw("[").number(static_cast<unsigned>(kind.outcome));
        for (const std::uint32_t one :
             {kind.verdict, kind.operation, kind.rule, kind.decided_by, kind.mechanism, kind.error,
              kind.reason, kind.program, kind.process, kind.operations})
            json.raw(",").number(one);
        json.raw("]");
    });
    const std::vector<Call>& calls = contents.calls.all();
    std::int64_t time = base;
    json.raw(",\n\"calls\":{\"time\":").list(calls, [&](const Call& call) {
        json.number(call.time - time);
        time = call.time;
    });
    std::uint64_t sequence = 0;
    json.raw(",\n\"sequence\":").list(calls, [&](const Call& call) {
        json.number(static_cast<std::int64_t>(call.sequence - sequence));
        sequence = call.sequence;
    });
    json.raw(",\n\"kind\":").list(calls, [&](const Call& call) { json.reference(call.kind); });
    json.raw(",\n\"object\":").list(calls, [&](const Call& call) { json.number(call.object); });
    json.raw("}");
}

void put_denials(Json& json, const Contents& contents, std::int64_t base) {
    json.raw(",\n\"denials\":").list(contents.denials.all(), [&](const Denial& denial) {
        json.raw("[").number(static_cast<unsigned>(denial.outcome));
        for (const std::uint32_t one : {denial.verdict, denial.operation, denial.rule, denial.decided_by,
                                        denial.error, denial.reason, denial.program, denial.object})
            json.raw(",").number(one);
        json.raw(",")
            .number(denial.count)
            .raw(",")
            .number(denial.sequence)
            .raw(",")
            .number(denial.first - base);
        json.raw(",")
            .number(denial.last - base)
            .raw(",")
            .text(denial.fix.option)
            .raw(",")
            .text(denial.fix.also)
            .raw(",");
        json.text(denial.fix.note).raw("]");
    });
}

void put_counts(Json& json, const Contents& contents, std::int64_t base) {
    json.raw(",\n\"rules\":").list(contents.rules, [&](const auto& rule) {
        json.raw("[").number(rule.first).raw(",").tally(rule.second).raw("]");
    });
    json.raw(",\n\"verdicts\":{");
    bool first = true;
    for (const auto& [verdict, calls] : contents.verdicts) {
        json.raw(first ? "" : ",").text(verdict).raw(":[").tally(calls).raw("]");
        first = false;
    }
    json.raw("},\n\"totals\":[").tally(contents.calls_by_outcome);
    json.raw("],\n\"times\":{\"start\":").number(contents.times.start() - base);
    json.raw(",\"width\":").number(contents.times.width()).raw(",\"steps\":");
    json.list(contents.times.steps(), [&](const Tally& step) { json.raw("[").tally(step).raw("]"); });
    json.raw("},\n\"cut\":{\"allowed\":").number(contents.calls.cut(Outcome::allowed));
    json.raw(",\"not_allowed\":")
        .number(contents.calls.cut(Outcome::refused) + contents.calls.cut(Outcome::would));
    json.raw(",\"events\":").number(contents.calls.events_cut());
    json.raw(",\"objects\":").number(contents.objects.rolled_up());
    json.raw(",\"denials\":").number(contents.denials.cut());
    const Tally& unlisted = contents.processes.all().front().calls;
    json.raw(",\"processes\":").number(unlisted[0] + unlisted[1] + unlisted[2]);
    json.raw(",\"runs\":").number(contents.runs_cut).raw(",\"rules\":").number(contents.rules_cut).raw("}");
}

/// Times in the page count from here: small numbers are short.
std::int64_t base_of(const Contents& contents) {
    if (!contents.runs.empty() && contents.runs.front().started != 0) return contents.runs.front().started;
    return contents.calls.all().empty() ? contents.times.start() : contents.calls.all().front().time;
}

}  // namespace

void write_data(std::ostream& out, const Contents& contents) {
    Json json(out);
    const std::int64_t base = base_of(contents);
    json.raw("{\"format\":1,\"file\":").text(contents.file).raw(",\"records\":").number(contents.records);
    json.raw(",\"bad_lines\":")
        .number(contents.bad_lines)
        .raw(",\"torn\":")
        .raw(contents.torn ? "true" : "false");
    json.raw(",\"head\":").text(contents.head).raw(",\"made\":").number(std::int64_t{::time(nullptr)});
    json.raw(",\"by\":").text(CALLGATE_VERSION).raw(",\"base\":").number(base);
    json.raw(",\n\"runs\":").list(contents.runs, [&json](const Run& run) { put_run(json, run); });
    put_counts(json, contents, base);
    put_denials(json, contents, base);
    put_processes(json, contents, base);
    put_objects(json, contents);
    put_calls(json, contents, base);
    json.raw(",\n\"strings\":").list(contents.strings.all(), [&json](const std::string& one) {
        json.text(one);
    });
    json.raw("}");
}

}  // namespace callgate::audit::report
