#include "supervisor/approval/terminal/prompt.hpp"

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <utility>

#include "base/reader_letters.hpp"
#include "base/test_switch.hpp"

namespace callgate::approval {

namespace {

constexpr std::string_view paste_begins = "\x1b[200~", paste_ends = "\x1b[201~";

/// Lines behind a frame.
class Frame {
public:
    explicit Frame(const Look& look)
        : look_(look),
          width_(std::max<std::size_t>(look.columns, 20) - 1),
          more_lines_(look.rows > usual_lines ? look.rows - usual_lines : 0) {}

    /// The parts of the title, on as many lines as a narrow screen needs. They are callgate's own words, so
    /// what is cut of them hides nothing.
    void head(std::initializer_list<std::string> parts) {
        std::string line;
        bool own_words_cut = false;
        const auto end_line = [&] {
            const bool first = text_.empty();
            const char* const bar = first ? (look_.plain ? "+ " : "┏ ") : (look_.plain ? "| " : "┃ ");
            if (!first) more_lines_ -= std::min<std::size_t>(more_lines_, 1);
            text_ += bar + shortened(line, width_ - 2, own_words_cut) + '\n';
        };
        for (const std::string& part : parts) {
            if (!line.empty() && columns_of(line) + 3 + columns_of(part) > width_ - 2) {
                end_line();
                line.clear();
            }
            line += (line.empty() ? "" : "   ") + part;
        }
        end_line();
    }
    void field(std::string_view label, const std::string& value, bool whole = false) {
        constexpr std::size_t label_width = 11;
        const std::string bar = look_.plain ? "| " : "┃ ";
        std::string name(label);
        name.resize(label_width, ' ');
        const std::size_t room = width_ - 2 - label_width;
        std::size_t more = 0;  // lines behind the first
        for (std::string_view rest = value; columns_of(rest) > room; ++more)
            rest.remove_prefix(fitting(rest, room));
        if (!whole && more <= more_lines_) {
            more_lines_ -= more;
            whole = true;
        }
        if (!whole) {
            text_ += bar + name + cut(value, room) + '\n';
            return;
        }
        for (std::string_view rest = value; rest.data() == value.data() || !rest.empty();) {
            const std::size_t bytes = fitting(rest, room);
            text_ += bar + (rest.data() == value.data() ? name : std::string(label_width, ' '));
            text_.append(rest.substr(0, bytes)) += '\n';
            if (bytes == 0) break;
            rest.remove_prefix(bytes);
        }
    }
    void foot(const std::string& keys) {
        const std::string corner = look_.plain ? "+ " : "┗ ";
        std::string line;
        std::size_t begin = 0;
        while (begin < keys.size()) {  // a line may end between two keys
            std::size_t end = std::min(keys.find("   ", begin), keys.size());
            const std::string part = keys.substr(begin, end - begin);
            if (!line.empty() && line.size() + 3 + part.size() > width_ - 2) {
                text_ += (first_foot_ ? corner : "  ") + line + '\n';
                first_foot_ = false;
                line.clear();
            }
            line += (line.empty() ? "" : "   ") + part;
            begin = end == keys.size() ? end : end + 3;
        }
        text_ += (first_foot_ ? corner : "  ") + line + '\n';
    }
    [[nodiscard]] Drawn done() { return {std::move(text_), cut_}; }

private:
    std::string cut(const std::string& value, std::size_t room) { return shortened(value, room, cut_); }

    /// Lines of a frame without a long field, with its keys, the mark and what is typed.
    static constexpr std::size_t usual_lines = 18;

    const Look& look_;
    std::size_t width_;
    std::size_t more_lines_;  // that long fields may take
    std::string text_;
    bool cut_ = false, first_foot_ = true;
};

std::string in_words(const std::string& operation) {
    if (operation == "metadata") return "change attributes of";
    if (operation == "bind") return "listen on";
    if (operation == "connect") return "connect to";
    return operation;
}

std::string wish(const QuestionView& shown) {
    if (shown.kind == "name") return "look up a name, and connect to it";
    if (!shown.changes.empty()) return "change settings that are there";
    std::string text = in_words(shown.operation);
    std::string others;
    for (const std::string& one : shown.operations)
        if (one != shown.operation) others += (others.empty() ? "" : ", ") + in_words(one);
    return others.empty() ? text : text + " (and " + others + ')';
}

/// The meaning of an address ("203.0.113.4:443", "[::1]:80/udp") that a person may not know by its number.
std::string address_in_words(std::string_view address) {
    const bool loopback =
        address.starts_with("127.") || address.starts_with("[::1]:") || address.starts_with("[::ffff:127.");
    std::string_view port = address.substr(std::min(address.rfind(':'), address.size()));
    if (port.ends_with("/udp")) port.remove_suffix(4);
    std::string text = loopback ? "   (this machine itself)" : "";
    if (port == ":53") text += "   (where name servers listen)";
    return text;
}

std::string state_of(const QuestionView& shown) {
    if (shown.kind == "internet") return address_in_words(shown.object);
    if (shown.kind != "file") return "";
    if (!shown.exists) return "   (does not exist yet)";
    if (shown.directory) return "   (directory)";
    return shown.size ? "   (" + std::to_string(*shown.size) + " bytes)" : "";
}

/// Quotes a word that does not look like one word: the target must not choose where an argument seems to end.
std::string quoted(const std::string& word) {
    std::string text = shown_words(word);
    if (!text.empty() && text.find_first_of(" '\"") == std::string::npos) return text;
    for (std::size_t at = 0; (at = text.find('\'', at)) != std::string::npos; at += 4)
        text.replace(at, 1, "\\x27");
    return '\'' + text + '\'';
}

std::string joined(const std::vector<std::string>& words) {
    std::string text;
    for (const std::string& one : words) text += (text.empty() ? "" : " ") + quoted(one);
    return text;
}

std::string chain(const QuestionView& shown) {
    // A name with spaces is quoted, too: it could go on with a process and ancestors of its own making.
    const auto named = [](const std::string& program) { return program.empty() ? "" : quoted(program); };
    std::string text = named(shown.program) + "  pid " + std::to_string(shown.process);
    for (const Process& one : shown.ancestors) {
        const std::size_t slash = one.program.rfind('/');
        text += "  <  " + named(slash == std::string::npos ? one.program : one.program.substr(slash + 1)) +
                ' ' + std::to_string(one.pid);
    }
    return text;
}

/// The reason that `callgate request --reason TEXT` gives; null: there is none. Any program may bear such
/// words, so the frame says whose they are.
const std::string* stated_reason(const std::vector<std::string>& argv) {
    return argv.size() > 3 && argv[1] == "request" && argv[2] == "--reason" ? &argv[3] : nullptr;
}

/// Why no key allows.
enum class Closed : std::uint8_t { no, until_details, by_screen };

std::string keys(const QuestionView& shown, Closed closed) {
    std::string text = "[Enter] deny";
    if (closed == Closed::no) {
        text += "   a allow once";
        if (shown.offers(Scope::object)) text += "   s this, this run";
        if (shown.offers(Scope::tree)) text += "   t everything beneath, this run";
        if (!shown.widest.empty()) text += "   u wider";
        if (shown.offers_writing) text += "   w read and write";
    }
    text += "   d deny this, this run   D deny all, this run   r propose a rule   v details   k kill";
    if (closed == Closed::until_details) text += "   (more is hidden: v first)";
    if (closed == Closed::by_screen)
        text += "   (too long for this screen: enlarge it)   (or use callgate approve)";
    return text;
}

}  // namespace

std::string shortened(const std::string& text, std::size_t width, bool& cut) {
    if (columns_of(text) <= width) return text;
    cut = true;
    constexpr std::size_t mark_room = 20;
    const std::size_t kept = width > mark_room ? width - mark_room : 0;
    const std::size_t head = fitting(text, kept / 2);
    std::size_t tail = text.size();
    for (std::size_t room = kept - kept / 2; tail > head;) {  // whole letters
        std::size_t begin = tail - 1;
        while (begin > head && columns_of(std::string_view(text).substr(begin, 1)) == 0) --begin;
        const std::size_t columns = columns_of(std::string_view(text).substr(begin, tail - begin));
        if (columns > room) break;
        room -= columns;
        tail = begin;
    }
    return text.substr(0, head) + "..[+" + std::to_string(tail - head) + " bytes].." + text.substr(tail);
}

Drawn draw(const QuestionView& shown, const Look& look) {
    Frame frame(look);
    const std::int64_t left = std::max<std::int64_t>(shown.deadline_ns - look.now_ns, 0) / 1'000'000'000;
    frame.head({"callgate  question " + std::to_string(look.position) + " of " + std::to_string(look.total),
                "run " + shown_name(shown.run), "denies in " + std::to_string(left) + " s"});
    frame.field("wants to", wish(shown), look.details);
    frame.field("object", shown_name(shown.object) + state_of(shown), look.details);
    if (!shown.host.empty()) frame.field("name", shown_name(shown.host), look.details);
    if (!shown.second_path.empty()) frame.field("new name", shown_name(shown.second_path), look.details);
    for (const std::string& one : shown.changes) frame.field("changes", shown_name(one), look.details);
    if (!shown.source.empty()) frame.field("link to", shown_name(shown.source), look.details);
    if (!shown.arguments.empty()) frame.field("arguments", joined(shown.arguments), look.details);
    if (!shown.asked_as.empty() && shown.asked_as != shown.object)
        frame.field("asked as", shown_name(shown.asked_as), look.details);
    frame.field("by", chain(shown), look.details);
    if (const std::string* const reason = stated_reason(shown.argv))
        frame.field("it says", shown_words(*reason), look.details);
    if (shown.any_program) frame.field("asks for", "every program of the run", look.details);
    if (shown.again)
        frame.field("again", "you have denied this before; d denies it for the rest of this run",
                    look.details);
    if (shown.count > 1) frame.field("", std::to_string(shown.count) + " times", look.details);
    if (look.details) frame.field("as", joined(shown.argv), true);
    frame.field(
        "rule",
        shown_name(shown.rule) + (shown.reason.empty() ? "" : "   reason: " + shown_words(shown.reason)),
        look.details);
    if (shown.offers(Scope::tree))
        frame.field("beneath",
                    shown_name(look.width.tree.empty() ? shown.tree : look.width.tree) +
                        (look.width.reads_and_writes ? "   (read and write)" : ""),
                    look.details);
    // The fields say only now whether something is hidden, and the keys depend on it.
    Drawn drawn = frame.done();
    const auto feet = [&](Closed closed) {
        Frame lines(look);
        lines.foot(keys(shown, closed));
        return lines.done().text;
    };
    const std::string foot = feet(drawn.cut ? Closed::until_details : Closed::no);
    // The last line is for what is typed.
    const auto lines = std::ranges::count(drawn.text, '\n') + std::ranges::count(foot, '\n') + 1;
    drawn.too_tall = !look.scrolls_back && look.rows > 0 && std::cmp_greater(lines, look.rows) &&
                     check_enabled("whole-prompt");
    drawn.text += drawn.too_tall ? feet(Closed::by_screen) : foot;
    return drawn;
}

Typed understand(std::string_view line, const QuestionView& shown, bool detailed) {
    while (!line.empty() && (line.back() == '\n' || line.back() == '\r' || line.back() == ' '))
        line.remove_suffix(1);
    if (line.empty() || line == "\x1b") return Typed::deny;
    if (line.size() != 1) return Typed::again;
    switch (line[0]) {
        case 'a':
            return detailed ? Typed::once : Typed::again;
        case 's':
            return detailed && shown.offers(Scope::object) ? Typed::object : Typed::again;
        case 't':
            return detailed && shown.offers(Scope::tree) ? Typed::tree : Typed::again;
        case 'u':
            return detailed && !shown.widest.empty() ? Typed::wider : Typed::again;
        case 'w':
            return detailed && shown.offers_writing ? Typed::writing : Typed::again;
        case 'd':
            return Typed::deny_run;
        case 'D':
            return Typed::deny_all;
        case 'r':
            return Typed::propose;
        case 'v':
            return Typed::details;
        case 'k':
            return Typed::kill;
        default:
            return Typed::again;
    }
}

std::optional<std::string> TypedLines::take(std::string_view line) {
    bool pasted = pasting_;
    for (std::size_t at = 0; at < line.size();) {
        const std::size_t next = line.find(pasting_ ? paste_ends : paste_begins, at);
        if (next == std::string_view::npos) break;
        pasted = true;
        pasting_ = !pasting_;
        at = next + paste_begins.size();
    }
    if (pasted) return std::nullopt;
    return std::string(line);
}

}  // namespace callgate::approval
