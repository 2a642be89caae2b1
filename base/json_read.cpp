#include "base/json_read.hpp"

namespace callgate::json_read {

namespace {

/// Whether the value would take too much stack or memory. Text that is no JSON may be found so or not: the
/// parser refuses it.
bool is_costly(std::string_view text) {
    constexpr int max_levels = 256;
    int levels = 0;
    std::size_t values = 0;
    bool quoted = false;
    for (std::size_t at = 0; at < text.size(); ++at) {
        const char one = text[at];
        if (one == '"')
            quoted = !quoted;
        else if (quoted)
            at += one == '\\' ? 1 : 0;
        else if (one == '[' || one == '{')
            ++levels;
        else if (one == ']' || one == '}')
            --levels;
        values += !quoted && (one == '[' || one == '{' || one == ',') ? 1 : 0;
        if (levels > max_levels || values > max_values) return true;
    }
    return false;
}

}  // namespace

json parse(std::string_view text) {
    if (is_costly(text)) return {};
    json value = json::parse(text, nullptr, false);
    return value.is_discarded() ? json() : value;
}

json parse_object(std::string_view text) {
    json value = parse(text);
    return value.is_object() ? value : json();
}

}  // namespace callgate::json_read
