#include "supervisor/audit/timestamp.hpp"

#include <charconv>
#include <cstdio>

namespace callgate::audit {

namespace {

struct CachedSecond {
    std::time_t second = -1;
    char text[64] = {};
    std::size_t length = 0;
};

void fill(CachedSecond& cache, std::time_t second) {
    std::tm parts{};
    ::gmtime_r(&second, &parts);
    cache.length = std::strftime(cache.text, sizeof cache.text, "%Y-%m-%dT%H:%M:%S", &parts);
    cache.second = second;
}

}  // namespace

void append_timestamp(Buffer& out, const std::timespec& when) {
    thread_local CachedSecond cache;
    if (cache.second != when.tv_sec) fill(cache, when.tv_sec);
    out << std::string_view(cache.text, cache.length) << '.';
    char* const digits = out.reserve(9);
    auto rest = when.tv_nsec;
    for (int index = 8; index >= 0; --index, rest /= 10) digits[index] = static_cast<char>('0' + rest % 10);
    out.advance(9);
    out << 'Z';
}

std::optional<std::int64_t> parse_timestamp(std::string_view text) {
    constexpr std::string_view form = "0000-00-00T00:00:00.000000000Z";
    if (text.size() != form.size()) return std::nullopt;
    for (std::size_t index = 0; index < form.size(); ++index) {
        const bool digit = text[index] >= '0' && text[index] <= '9';
        if (form[index] == '0' ? !digit : text[index] != form[index]) return std::nullopt;
    }
    const auto number = [text](std::size_t at, std::size_t count) {
        int value = 0;
        std::from_chars(text.data() + at, text.data() + at + count, value);
        return value;
    };
    std::tm parts{};
    parts.tm_year = number(0, 4) - 1900;
    parts.tm_mon = number(5, 2) - 1;
    parts.tm_mday = number(8, 2);
    parts.tm_hour = number(11, 2);
    parts.tm_min = number(14, 2);
    parts.tm_sec = number(17, 2);
    constexpr std::int64_t latest = INT64_MAX / 1'000'000'000 - 1;  // the year 2262
    const std::int64_t seconds = ::timegm(&parts);
    if (seconds < -latest || seconds > latest) return std::nullopt;
    return seconds * 1'000'000'000 + number(20, 9);
}

}  // namespace callgate::audit
