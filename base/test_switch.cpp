#include "base/test_switch.hpp"

#ifdef CALLGATE_TEST_SWITCHES

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <string>
#include <vector>

namespace callgate {

namespace {

std::string taken_from_environment(const char* variable) {
    const char* value = std::getenv(variable);
    std::string text = value == nullptr ? "" : value;
    ::unsetenv(variable);
    return text;
}

struct Switches {
    std::vector<std::string> off;
    std::optional<int> abi;

    Switches() {
        const std::string names = taken_from_environment("CALLGATE_TEST_SWITCH_OFF");
        for (std::size_t begin = 0; begin < names.size();) {
            const std::size_t end = std::min(names.find(',', begin), names.size());
            off.push_back(names.substr(begin, end - begin));
            begin = end + 1;
        }
        const std::string number = taken_from_environment("CALLGATE_TEST_LANDLOCK_ABI");
        int value = 0;
        const char* end = number.data() + number.size();
        const auto parsed = std::from_chars(number.data(), end, value);
        if (parsed.ec == std::errc{} && parsed.ptr == end && value >= 0) abi = value;
    }
};

// Runs before main: nothing has been forked, and no other thread reads the environment.
const Switches switches;

}  // namespace

bool check_enabled(std::string_view check) {
    return std::find(switches.off.begin(), switches.off.end(), check) == switches.off.end();
}

std::optional<int> injected_landlock_abi() { return switches.abi; }

}  // namespace callgate

#endif
