// Reads decisions as callgate itself writes them, in one pass and without allocating: most of every log.
//
// The scanner leaves every other form to parse_record: white space, escapes in wanted text, members twice,
// other kinds of records. So it may give up on any line. If it accepts a line, its result is that of
// parse_record.
#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <utility>

#include "base/escape.hpp"
#include "supervisor/audit/read/reader.hpp"

namespace callgate::audit {

namespace {

/// Sets a bit for each byte of `word` that ends a run of plain text. Such a byte is a quote, a backslash, a
/// control character, or not ASCII.
std::uint64_t special_bytes(std::uint64_t word) {
    constexpr std::uint64_t ones = 0x0101010101010101, tops = 0x8080808080808080;
    const auto zero_bytes = [](std::uint64_t value) { return (value - ones) & ~value & tops; };
    return (zero_bytes(word ^ (ones * '"')) | zero_bytes(word ^ (ones * '\\')) |
            ((word - ones * 0x20) & ~word) | word) &
           tops;
}

bool is_hex(char one) {
    return (one >= '0' && one <= '9') || (one >= 'a' && one <= 'f') || (one >= 'A' && one <= 'F');
}

/// A string member that may occur once.
struct Text {
    std::string_view value;
    bool seen = false;
};
struct Number {
    std::uint64_t value = 0;
    bool seen = false;
};

/// Every function returns false if the line is not of the form: nothing after that counts.
class Pass {
public:
    explicit Pass(std::string_view line) : at_(line.data()), end_(line.data() + line.size()) {}

    /// Reads `{"key":…,…}`. It calls `value` with each key; `value` must consume what follows.
    template <typename Value>
    bool members(Value value) {
        if (!take('{')) return false;
        if (take('}')) return true;
        do {
            std::string_view key;
            bool plain = true;
            if (!string(key, plain) || !plain || !take(':') || !value(key)) return false;
        } while (take(','));
        return take('}');
    }
    /// Like `members`, for an object that may occur once.
    template <typename Value>
    bool object(bool& seen, Value value) {
        return !std::exchange(seen, true) && members(value);
    }
    bool text(Text& into) {
        if (std::exchange(into.seen, true)) return false;
        if (literal("null")) return true;
        bool plain = true;
        return string(into.value, plain) && plain;
    }
    bool number(Number& into) { return !std::exchange(into.seen, true) && natural(into.value); }
    bool texts(std::vector<std::string>& into, bool& seen) {
        if (std::exchange(seen, true) || !take('[')) return false;
        if (take(']')) return true;
        do {
            std::string_view one;
            bool plain = true;
            if (!string(one, plain) || !plain) return false;
            into.emplace_back(one);
        } while (take(','));
        return take(']');
    }
    /// Skips any value.
    bool skip(int depth = 0) {
        constexpr int deepest = 16;
        if (at_ == end_ || depth > deepest) return false;
        switch (*at_) {
            case '"': {
                std::string_view ignored;
                bool plain = true;
                return string(ignored, plain);
            }
            case '{':
                return members([&](std::string_view) { return skip(depth + 1); });
            case '[':
                ++at_;
                if (take(']')) return true;
                do {
                    if (!skip(depth + 1)) return false;
                } while (take(','));
                return take(']');
            case 't':
                return literal("true");
            case 'f':
                return literal("false");
            case 'n':
                return literal("null");
            default: {
                if (*at_ == '-') ++at_;
                std::uint64_t ignored = 0;
                return natural(ignored);
            }
        }
    }
    [[nodiscard]] bool at_end() const { return at_ == end_; }

private:
    bool take(char one) {
        if (at_ == end_ || *at_ != one) return false;
        ++at_;
        return true;
    }
    bool literal(std::string_view word) {
        if (!std::string_view(at_, static_cast<std::size_t>(end_ - at_)).starts_with(word)) return false;
        at_ += word.size();
        return true;
    }
    /// Reads a number without sign, fraction or exponent, of at most 18 digits.
    bool natural(std::uint64_t& value) {
        const char* const begin = at_;
        value = 0;
        while (at_ != end_ && *at_ >= '0' && *at_ <= '9')
            value = value * 10 + static_cast<std::uint64_t>(*at_++ - '0');
        const auto digits = at_ - begin;
        if (digits == 0 || digits > 18 || (digits > 1 && *begin == '0')) return false;
        return at_ == end_ || (*at_ != '.' && *at_ != 'e' && *at_ != 'E');
    }
    /// Sets `plain` to false if the text has escapes. Otherwise the bytes are the text.
    bool string(std::string_view& into, bool& plain) {
        if (!take('"')) return false;
        const char* const begin = at_;
        bool ascii = true;
        for (;;) {
            skip_plain_words();
            if (at_ == end_) return false;
            const auto one = static_cast<unsigned char>(*at_);
            if (one == '"') break;
            if (one < 0x20) return false;
            if (one >= 0x80) ascii = false;
            if (one == '\\') {
                plain = false;
                if (!escape()) return false;
            } else {
                ++at_;
            }
        }
        into = {begin, static_cast<std::size_t>(at_ - begin)};
        ++at_;
        return ascii || is_utf8(into);
    }
    void skip_plain_words() {
        while (end_ - at_ >= 8) {
            std::uint64_t word = 0;
            std::memcpy(&word, at_, 8);
            if (special_bytes(word) != 0) return;
            at_ += 8;
        }
    }
    /// Gives up on surrogates: parse_record decides which of them form a pair.
    bool escape() {
        ++at_;
        if (at_ == end_) return false;
        const char one = *at_++;
        if (one != 'u') return std::string_view("\"\\/bfnrt").find(one) != std::string_view::npos;
        if (end_ - at_ < 4 || !std::all_of(at_, at_ + 4, is_hex)) return false;
        if ((at_[0] == 'd' || at_[0] == 'D') && at_[1] >= '8') return false;
        at_ += 4;
        return true;
    }

    const char* at_;
    const char* const end_;
};

/// The wanted parts of a line, as views into it.
struct Wanted {
    Text schema, entity, second_object, time, action, run, mode, verdict, decided_by, mechanism, operation,
        rule, error, reason, program, socket_type;
    Text path, address, ip, domain, transport;
    Number sequence, pid, parent, port, of_sequence, count;
    bool event = false, process = false, parents = false, rules = false, file = false, destination = false;
    bool network = false, ours = false, operations = false;
};

bool read_process(Pass& pass, Wanted& wanted) {
    return pass.object(wanted.process, [&](std::string_view key) {
        if (key == "pid") return pass.number(wanted.pid);
        if (key == "entity_id") return pass.text(wanted.entity);
        if (key == "executable") return pass.text(wanted.program);
        if (key == "parent")
            return pass.object(wanted.parents, [&](std::string_view name) {
                return name == "pid" ? pass.number(wanted.parent) : pass.skip();
            });
        return pass.skip();
    });
}

bool read_destination(Pass& pass, Wanted& wanted) {
    return pass.object(wanted.destination, [&](std::string_view key) {
        if (key == "ip") return pass.text(wanted.ip);
        if (key == "port") return pass.number(wanted.port);
        if (key == "domain") return pass.text(wanted.domain);
        return key == "address" ? pass.text(wanted.address) : pass.skip();
    });
}

bool read_ours(Pass& pass, Wanted& wanted, std::vector<std::string>& operations) {
    // These members belong to other kinds of records, which are few.
    constexpr std::array<std::string_view, 10> of_others = {
        "command",   "profiles", "outcome", "workdir",    "temporary_directory",
        "exit_code", "signal",   "counts",  "torn_bytes", "duration_ms"};
    return pass.object(wanted.ours, [&](std::string_view key) {
        if (key == "verdict") return pass.text(wanted.verdict);
        if (key == "schema") return pass.text(wanted.schema);
        if (key == "second_object") return pass.text(wanted.second_object);
        if (key == "run") return pass.text(wanted.run);
        if (key == "mode") return pass.text(wanted.mode);
        if (key == "decided_by") return pass.text(wanted.decided_by);
        if (key == "mechanism") return pass.text(wanted.mechanism);
        if (key == "operation") return pass.text(wanted.operation);
        if (key == "operations") return pass.texts(operations, wanted.operations);
        if (key == "errno") return pass.text(wanted.error);
        if (key == "reason") return pass.text(wanted.reason);
        if (key == "socket_type") return pass.text(wanted.socket_type);
        if (key == "of_sequence") return pass.number(wanted.of_sequence);
        if (key == "count") return pass.number(wanted.count);
        if (std::find(of_others.begin(), of_others.end(), key) != of_others.end()) return false;
        return pass.skip();
    });
}

bool read_line(Pass& pass, Wanted& wanted, std::vector<std::string>& operations) {
    return pass.members([&](std::string_view key) {
        if (key == "@timestamp") return pass.text(wanted.time);
        if (key == "event")
            return pass.object(wanted.event, [&](std::string_view name) {
                if (name == "action") return pass.text(wanted.action);
                return name == "sequence" ? pass.number(wanted.sequence) : pass.skip();
            });
        if (key == "process") return read_process(pass, wanted);
        if (key == "rule")
            return pass.object(wanted.rules, [&](std::string_view name) {
                return name == "name" ? pass.text(wanted.rule) : pass.skip();
            });
        if (key == "file")
            return pass.object(wanted.file, [&](std::string_view name) {
                return name == "path" ? pass.text(wanted.path) : pass.skip();
            });
        if (key == "destination") return read_destination(pass, wanted);
        if (key == "network")
            return pass.object(wanted.network, [&](std::string_view name) {
                return name == "transport" ? pass.text(wanted.transport) : pass.skip();
            });
        if (key == "dns") return false;  // look-ups are few
        return key == "callgate" ? read_ours(pass, wanted, operations) : pass.skip();
    }) && pass.at_end();
}

/// A reader does not distinguish absent text from "", except in text that names the object.
void name_object(const Wanted& wanted, Entry& entry) {
    entry.object.clear();
    if (wanted.path.value.data() != nullptr) {
        entry.object = wanted.path.value;
    } else if (wanted.address.value.data() != nullptr) {
        entry.object = wanted.address.value;
    } else if (!wanted.ip.value.empty()) {
        const bool v6 = wanted.ip.value.find(':') != std::string_view::npos;
        entry.object.append(v6 ? "[" : "").append(wanted.ip.value).append(v6 ? "]:" : ":");
        entry.object.append(std::to_string(wanted.port.value));
        if (wanted.transport.value == "udp") entry.object.append("/udp");
    }
    entry.domain = wanted.domain.value;
    entry.host = wanted.domain.value.empty() ? wanted.ip.value : wanted.domain.value;
}

}  // namespace

bool scan_decision(std::string_view line, Entry& entry) {
    entry.operations.clear();
    Wanted wanted;
    Pass pass(line);
    if (!read_line(pass, wanted, entry.operations)) return false;
    constexpr std::uint64_t largest = INT32_MAX;
    if (wanted.verdict.value.empty() || wanted.time.value.empty() || wanted.action.value.empty() ||
        wanted.sequence.value == 0 ||
        (!wanted.schema.value.empty() && !wanted.schema.value.starts_with("1.")) ||
        wanted.pid.value > largest || wanted.parent.value > largest)
        return false;
    entry.time = wanted.time.value;
    entry.action = wanted.action.value;
    entry.run = wanted.run.value;
    entry.mode = wanted.mode.value;
    entry.sequence = wanted.sequence.value;
    entry.pid = static_cast<int>(wanted.pid.value);
    entry.start_time = start_of(wanted.entity.value);
    entry.second_object = wanted.second_object.value;
    entry.parent = static_cast<int>(wanted.parent.value);
    entry.verdict = wanted.verdict.value;
    entry.decided_by = wanted.decided_by.value;
    entry.mechanism = wanted.mechanism.value;
    entry.operation = wanted.operation.value;
    entry.rule = wanted.rule.value;
    entry.error = wanted.error.value;
    entry.reason = wanted.reason.value;
    entry.program = wanted.program.value;
    entry.socket_type = wanted.socket_type.value;
    entry.of_sequence = wanted.of_sequence.value;
    entry.count = std::max<std::uint64_t>(wanted.count.value, 1);
    entry.torn_bytes = 0;
    entry.command.clear();
    entry.profiles.clear();
    entry.outcome.clear();
    entry.workdir.clear();
    entry.temporary_directory.clear();
    entry.exit_code.reset();
    entry.signal.reset();
    entry.counts.reset();
    name_object(wanted, entry);
    return true;
}

}  // namespace callgate::audit
