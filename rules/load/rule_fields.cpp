// Keys and errno names of rule files, and typed access to values.
#include "rules/load/rule_fields.hpp"

#include <array>
#include <cerrno>

namespace callgate::rules {
namespace {

constexpr std::array<std::string_view, 12> file_keys{"$schema", "version",     "description", "extends",
                                                     "default", "sni",         "rules",       "exceptions",
                                                     "limits",  "environment", "examples",    "agent"};
constexpr std::array<std::string_view, 24> rule_keys{
    "id",    "allow",    "ask",   "deny",    "kill", "path",   "host",   "address",
    "port",  "protocol", "unix",  "program", "argv", "expand", "except", "reason",
    "errno", "filtered", "quiet", "links",   "tls",  "party",  "server", "needs"};
constexpr std::array<std::string_view, 10> condition_keys{"path",     "host", "address", "port",  "server",
                                                          "protocol", "unix", "program", "party", "argv"};
constexpr std::array<std::string_view, 8> limit_keys{"memory", "processes",  "cpu",  "wall",
                                                     "idle",   "open_files", "disk", "file_size"};
constexpr std::array<std::string_view, 3> environment_keys{"pass", "agent", "set"};
constexpr std::array<std::string_view, 6> agent_keys{"program", "command",     "launcher",
                                                     "starts",  "interpreter", "arguments"};
constexpr std::array<std::string_view, 4> example_keys{"allow", "ask", "deny", "kill"};

// Left out are EINTR and EAGAIN, after which programs try again, and the kernel's restart codes.
constexpr std::array<std::string_view, 26> errno_words{
    "EACCES",       "EPERM",          "ENOENT",    "EROFS",      "ECONNREFUSED",  "ENETUNREACH",
    "EHOSTUNREACH", "ENETDOWN",       "ETIMEDOUT", "ECONNRESET", "EADDRNOTAVAIL", "EADDRINUSE",
    "ENOTDIR",      "EISDIR",         "EEXIST",    "ENODEV",     "ENXIO",         "EBUSY",
    "EIO",          "ENOSPC",         "EDQUOT",    "EFBIG",      "EINVAL",        "ENOSYS",
    "EOPNOTSUPP",   "EPROTONOSUPPORT"};
constexpr std::array<int, errno_words.size()> errno_numbers{
    EACCES,     EPERM,          ENOENT,        EROFS,      ECONNREFUSED, ENETUNREACH, EHOSTUNREACH, ENETDOWN,
    ETIMEDOUT,  ECONNRESET,     EADDRNOTAVAIL, EADDRINUSE, ENOTDIR,      EISDIR,      EEXIST,       ENODEV,
    ENXIO,      EBUSY,          EIO,           ENOSPC,     EDQUOT,       EFBIG,       EINVAL,       ENOSYS,
    EOPNOTSUPP, EPROTONOSUPPORT};

}  // namespace

std::span<const std::string_view> known_keys(KeyPlace place) {
    switch (place) {
        case KeyPlace::file:
            return file_keys;
        case KeyPlace::rule:
            return rule_keys;
        case KeyPlace::condition:
            return condition_keys;
        case KeyPlace::limit:
            return limit_keys;
        case KeyPlace::environment:
            return environment_keys;
        case KeyPlace::example:
            return example_keys;
        case KeyPlace::agent:
            return agent_keys;
    }
    return {};
}

void wrong_type(const ParseState& state, const JsonValue& value, std::string_view what) {
    state.error(value, "expected " + std::string(what) + ", not " + describe(value));
}

std::optional<std::string_view> want_text(const ParseState& state, const JsonValue& value,
                                          std::string_view what) {
    if (value.kind() == JsonValue::Kind::string && !value.text().empty()) return value.text();
    wrong_type(state, value, what);
    return std::nullopt;
}

bool want_object(const ParseState& state, const JsonValue& value, std::string_view what) {
    if (value.kind() == JsonValue::Kind::object) return true;
    wrong_type(state, value, what);
    return false;
}

std::string unknown_word(std::string_view kind, std::string_view word,
                         std::span<const std::string_view> known) {
    std::string message = "unknown " + std::string(kind) + ' ' + in_quotes(word) + ": ";
    if (const std::optional<std::string> near = nearest(word, known))
        return message + "did you mean \"" + *near + "\"?";
    message += "expected ";
    for (std::size_t index = 0; index < known.size(); ++index) {
        if (index > 0) message += index + 1 == known.size() ? " or " : ", ";
        message += known[index];
    }
    return message;
}

void unknown_key(const ParseState& state, const JsonMember& member, KeyPlace place) {
    state.error(member, unknown_word("key", member.key, known_keys(place)));
}

std::span<const std::string_view> errno_names() { return errno_words; }

std::optional<int> errno_number(std::string_view name) {
    for (std::size_t index = 0; index < errno_words.size(); ++index)
        if (errno_words[index] == name) return errno_numbers[index];
    return std::nullopt;
}

}  // namespace callgate::rules
