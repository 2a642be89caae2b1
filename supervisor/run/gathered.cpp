// Denials that have one remedy, as one line of the footer.
//
// A program that is kept from one name of a directory is often kept from the next one. Whoever allows each by
// its own option never ends. So from the third name on, the directory is named. Some directories hold more
// than one program's files, as the home does. There a pattern is named, if the names differ only in parts
// that a program makes up. A temporary name is another one in each run, so its pattern is named at once.
// Where one could be a word, three names show it. Rules that deny go on to hold, whatever an option allows.
//
// ps(1) asks for the same file of every process. That is one line too, though no option allows it.
//
// A server that may not listen on its port tries the next ones, and one that may not on every address tries
// loopback. Each is one line: the option is the first port's, and loopback's.
#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <string_view>
#include <tuple>

#include "base/at_or_beneath.hpp"
#include "base/escape.hpp"
#include "rules/load/pattern.hpp"
#include "supervisor/run/report_parts.hpp"

namespace callgate {

namespace {

constexpr std::size_t enough = 3;

std::string_view containing(std::string_view path) { return path.substr(0, path.rfind('/')); }

constexpr std::string_view of_socket = "--bind ";

/// The option that allows the denied name and nothing else; "" if there is no such one.
std::string_view option_of(const Denial& denial) {
    for (const std::string_view option : {"--read ", "--write ", "--execute "})
        if (denial.hint == std::string(option) + shell_quote(denial.object)) return option;
    // A connect by a pattern may reach another program's socket.
    return denial.hint == std::string(of_socket) + shell_quote("unix:" + denial.object) ? of_socket : "";
}

/// Whether the option names a directory to which the denied file belongs (audit/hint.cpp).
bool names_whole(const Denial& denial) {
    return denial.hint.starts_with("--read ") || denial.hint.starts_with("--execute ");
}

/// Whether a program made this part of a name up: a number, or hexadecimal digits.
bool is_made_up(std::string_view part) {
    constexpr std::size_t enough_digits = 4;
    const auto digit = [](char one) { return one >= '0' && one <= '9'; };
    const auto hex_digit = [&](char one) {
        return digit(one) || (one >= 'a' && one <= 'f') || (one >= 'A' && one <= 'F');
    };
    return std::ranges::all_of(part, digit) ||
           (part.size() >= enough_digits && std::ranges::all_of(part, hex_digit));
}

/// The last component with a star for all that is made up: "claude-*-cwd". "" if nothing is, or if too little
/// is left to tell one program's names from another's.
std::string name_pattern(std::string_view name) {
    constexpr std::string_view separators = ".-_";
    constexpr std::size_t enough_letters = 3;
    std::string pattern;
    std::size_t letters = 0;
    bool starred = false;
    while (!name.empty()) {
        const std::size_t end = std::min(name.find_first_of(separators), name.size());
        const std::string_view part = name.substr(0, end);
        const bool again = pattern.ends_with("*.") || pattern.ends_with("*-") || pattern.ends_with("*_");
        if (part.empty() || !is_made_up(part)) {
            pattern += rules::quote_glob(part);
            if (!starred) letters += part.size();
        } else if (again) {
            pattern.pop_back();
        } else {
            pattern += '*';
            starred = true;
        }
        name.remove_prefix(end);
        if (name.empty()) break;
        pattern += name.front();
        name.remove_prefix(1);
    }
    return starred && letters >= enough_letters ? pattern : "";
}

/// A pattern for a name that mkstemp(3) has made up, and the number of names that show it to be one. "" for
/// every other name.
struct Temporary {
    std::string pattern;
    std::size_t from = enough;
};

bool is_letter(char one) { return (one >= 'a' && one <= 'z') || (one >= 'A' && one <= 'Z'); }

/// Whether it says enough about the program that made the name.
bool tells_of_program(std::string_view kept) {
    constexpr std::ptrdiff_t enough_letters = 3;
    return std::ranges::count_if(kept, is_letter) >= enough_letters;
}

/// "perf-*.map" for a name with the number of the process that was denied it; "" for every other one.
std::string pattern_of_process(std::string_view name, int process) {
    const std::string number = std::to_string(process);
    const std::size_t at = name.find(number);
    if (number.size() < 2 || at == std::string_view::npos || at == 0) return {};
    const std::string_view before = name.substr(0, at), after = name.substr(at + number.size());
    constexpr std::string_view digits = "0123456789";
    const bool longer = digits.find(before.back()) != std::string_view::npos ||
                        (!after.empty() && digits.find(after.front()) != std::string_view::npos);
    if (longer || !tells_of_program(before)) return {};
    return rules::quote_glob(before) + '*' + rules::quote_glob(after);
}

/// "probing*.tmp" for a name with a number that no person writes: Java makes such names. "Single_*" for one
/// with a hash. "" for every other one.
std::string pattern_of_number(std::string_view name) {
    constexpr std::size_t enough_digits = 15;
    constexpr std::string_view digits = "0123456789", hex_digits = "0123456789abcdef", separators = ".-_";
    for (const std::string_view among : {digits, hex_digits}) {
        for (std::size_t at = 0; (at = name.find_first_of(among, at)) != std::string_view::npos;) {
            const std::size_t end = std::min(name.find_first_not_of(among, at), name.size());
            const std::string_view before = name.substr(0, at), after = name.substr(end);
            const auto separates = [&](char one) { return separators.find(one) != std::string_view::npos; };
            const bool whole = at > 0 && separates(before.back()) && (after.empty() || separates(after[0]));
            if (end - at >= enough_digits && tells_of_program(before) &&
                (among == digits || (whole && name.find_first_of(digits, at) < end)))
                return rules::quote_glob(before) + '*' + rules::quote_glob(after);
            at = end;
        }
    }
    return {};
}

/// "lua_??????", "perf-*.map" and "probing*.tmp" by one name alone. "dif??????" and "job.????????" by
/// several, because one could be a word.
Temporary temporary_pattern(std::string_view name, int process) {
    if (name.starts_with("callgate-")) return {};  // the private directory of another run
    if (std::string pattern = pattern_of_process(name, process); !pattern.empty())
        return {std::move(pattern), 1};
    if (std::string pattern = pattern_of_number(name); !pattern.empty()) {
        std::string shorter = name_pattern(name);
        return {shorter.empty() ? std::move(pattern) : std::move(shorter), 1};
    }
    constexpr std::size_t usual = 6, longest = 12;
    const std::size_t after = name.find_last_of(".-_") + 1;  // 0 if there is none
    const std::size_t run = name.size() - after;
    const bool separated = after != 0 && run >= usual && run <= longest;
    const std::size_t made_up = separated ? run : usual;
    if (name.size() <= made_up + 1) return {};
    const std::string_view kept = name.substr(0, name.size() - made_up), rest = name.substr(kept.size());
    const auto has = [&](char first, char last) {
        return std::ranges::any_of(rest, [=](char one) { return one >= first && one <= last; });
    };
    const bool all =
        std::ranges::all_of(rest, [&](char one) { return (one >= '0' && one <= '9') || is_letter(one); });
    if (!all || !has('A', 'Z') || !(has('a', 'z') || has('0', '9'))) return {};
    const bool at_once = separated && made_up == usual;
    if (!at_once && !tells_of_program(kept)) return {};
    return {rules::quote_glob(kept) + std::string(made_up, '?'), at_once ? 1 : enough};
}

bool holds_temporary_files(std::string_view directory) {
    return directory == "/tmp" || directory == "/var/tmp" || directory == "/dev/shm";
}

/// Whether an option may name the directory: the files of one program or project, as far as a name can tell.
bool belongs_together(std::string_view directory, const std::string& home) {
    constexpr std::array<std::string_view, 5> of_all_programs{"/.config", "/.local", "/.local/share",
                                                              "/.local/state", "/.cache"};
    if (home.empty() || holds_temporary_files(directory) || !is_small_tree(directory, home)) return false;
    return !directory.starts_with(home) ||
           std::ranges::find(of_all_programs, directory.substr(home.size())) == of_all_programs.end();
}

/// The denials that one option allows: the ones of a directory, or of a pattern in it, or of a profile.
struct Remedy {
    std::string option;
    std::string object;  // a pattern; "": the first name and the number of others
    const char* others = " more names there";
    std::size_t from = enough;  // so many names have it
};

/// The host and the rest of "127.0.0.1:8080/udp", "[::1]:80". Both "" for another object.
struct Place {
    std::string_view host, port;
};

Place place_of(const Denial& denial) {
    const std::string_view object = denial.object;
    const std::size_t colon = object.rfind(':');
    if (denial.operation != rules::Operation::bind || !denial.hint.starts_with("--bind ") ||
        colon == std::string_view::npos || object.front() == '/' || object.front() == '@')
        return {};
    return {object.substr(0, colon), object.substr(colon + 1)};
}

bool is_loopback(std::string_view host) { return host.starts_with("127.") || host == "[::1]"; }

/// The remedy for a place where a server may not listen. The option is that for loopback if it tried the port
/// there too. Else it is the one for the first port that it tried at this address.
std::optional<Remedy> remedy_of_bind(const Denial& denial, const std::vector<Denial>& all) {
    constexpr std::size_t both = 2;
    const Place place = place_of(denial);
    if (place.port.empty()) return std::nullopt;
    const Denial* loopback = nullptr;
    bool tried_wider = false;
    for (const Denial& one : all) {
        const Place other = place_of(one);
        if (other.port != place.port) continue;
        if (!is_loopback(other.host)) tried_wider = true;
        if (is_loopback(other.host) && loopback == nullptr) loopback = &one;
    }
    if (loopback != nullptr && tried_wider) return Remedy{loopback->hint, "", " more of this port", both};
    const auto first =
        std::ranges::find_if(all, [&](const Denial& one) { return place_of(one).host == place.host; });
    // Every address of IPv6 and every one of IPv4: a server tries both, and one option is for both.
    const bool one_port = std::ranges::none_of(all, [&](const Denial& one) {
        return place_of(one).host == place.host && place_of(one).port != place.port;
    });
    const bool twice = std::ranges::any_of(all, [&](const Denial& one) {
        return place_of(one).port == place.port && one.hint == denial.hint && one.object != denial.object;
    });
    if (one_port && twice) return Remedy{first->hint, "", " more of this port", both};
    return Remedy{first->hint, "", " more ports"};
}

std::string after_slash(std::string_view path) { return std::string(path.substr(path.rfind('/') + 1)); }

/// "/proc/*/environ" for that file of a process; "" for every other name.
std::string of_every_process(std::string_view path) {
    constexpr std::string_view processes = "/proc/";
    if (!path.starts_with(processes)) return {};
    path.remove_prefix(processes.size());
    const std::size_t digits = std::min(path.find_first_not_of("0123456789"), path.size());
    if (digits == 0 || digits == path.size() || path[digits] != '/') return {};
    return std::string(processes) + '*' + std::string(path.substr(digits));
}

std::optional<Remedy> remedy_of(const Denial& denial, const std::vector<Denial>& all,
                                const std::string& home) {
    if (std::string files = of_every_process(denial.object);
        !denial.would && denial.hint.empty() && !files.empty())
        return Remedy{"", std::move(files)};
    if (denial.would || denial.by_rule || denial.hint.empty()) return std::nullopt;
    if (auto remedy = remedy_of_bind(denial, all)) return remedy;
    if (denial.hint.starts_with("-p ")) return Remedy{denial.hint, "", " more names"};
    const std::string_view option = option_of(denial);
    if (option.empty()) return names_whole(denial) ? std::optional(Remedy{denial.hint, ""}) : std::nullopt;
    const std::string directory(containing(denial.object));
    const bool socket = option == of_socket;
    if (!socket && belongs_together(directory, home))
        return Remedy{std::string(option) + shell_quote(directory), ""};
    const std::string name = after_slash(denial.object);
    const Temporary temporary =
        holds_temporary_files(directory) ? temporary_pattern(name, denial.pid) : Temporary{};
    const std::string pattern = temporary.pattern.empty() ? name_pattern(name) : temporary.pattern;
    if (pattern.empty()) return std::nullopt;
    Remedy remedy;
    remedy.object = directory + '/' + pattern;
    remedy.option = std::string(option) + shell_quote((socket ? "unix:glob:" : "glob:") + remedy.object);
    remedy.from = temporary.from;
    return remedy;
}

/// A shell that may not execute a file reads it for a reason. `--execute` allows both, so that is one line.
std::vector<Denial> without_reads_of_programs(const std::vector<Denial>& denials) {
    std::vector<Denial> kept;
    const auto has_option = [](const Denial& one, rules::Operation operation) {
        return one.operation == operation && !one.would && !one.by_rule && !one.hint.empty();
    };
    for (const Denial& one : denials) {
        const auto program = std::ranges::find_if(denials, [&](const Denial& other) {
            return other.object == one.object && other.hint.starts_with("--execute ") &&
                   has_option(other, rules::Operation::execute);
        });
        if (program == denials.end() || !has_option(one, rules::Operation::read)) kept.push_back(one);
    }
    return kept;
}

}  // namespace

std::vector<Denial> gathered(const std::vector<Denial>& noted, const std::string& home) {
    const std::vector<Denial> denials = without_reads_of_programs(noted);
    using Key = std::tuple<rules::Operation, std::string, std::string>;
    const auto key_of = [](const Denial& one, const Remedy& remedy) {
        return Key{one.operation, one.note, remedy.option.empty() ? remedy.object : remedy.option};
    };
    std::map<Key, std::vector<const Denial*>> together;
    for (const Denial& one : denials)
        if (const auto remedy = remedy_of(one, denials, home)) together[key_of(one, *remedy)].push_back(&one);

    std::vector<Denial> lines;
    for (const Denial& one : denials) {
        const auto remedy = remedy_of(one, denials, home);
        const auto found = remedy ? together.find(key_of(one, *remedy)) : together.end();
        if (found == together.end() || found->second.size() < remedy->from) {
            lines.push_back(one);
            continue;
        }
        const auto& [key, same] = *found;
        if (same.front() != &one) continue;
        Denial all = one;
        all.hint = remedy->option;
        if (same.size() == 1) {
            lines.push_back(std::move(all));
            continue;
        }
        if (remedy->object.empty()) {
            all.others = " and " + std::to_string(same.size() - 1) + remedy->others;
        } else {
            all.object = remedy->object;
            all.others = " (" + std::to_string(same.size()) + " names)";
        }
        all.count = 0;
        for (const Denial* each : same) all.count += each->count;
        lines.push_back(std::move(all));
    }
    return lines;
}

}  // namespace callgate
