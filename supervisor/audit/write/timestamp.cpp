#include "supervisor/audit/write/timestamp.hpp"

#include <charconv>
#include <chrono>
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

std::optional<std::timespec> read_timestamp(std::string_view text) {
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
    using namespace std::chrono;
    const year_month_day date{year(number(0, 4)), month(static_cast<unsigned>(number(5, 2))),
                              day(static_cast<unsigned>(number(8, 2)))};
    const int hour = number(11, 2), minute = number(14, 2), second = number(17, 2);
    if (!date.ok() || hour > 23 || minute > 59 || second > 60) return std::nullopt;
    const auto since = sys_days(date).time_since_epoch() + hours(hour) + minutes(minute) + seconds(second);
    return std::timespec{duration_cast<seconds>(since).count(), number(20, 9)};
}

std::optional<std::int64_t> parse_timestamp(std::string_view text) {
    constexpr std::int64_t latest = INT64_MAX / 1'000'000'000 - 1;
    const std::optional<std::timespec> when = read_timestamp(text);
    if (!when || when->tv_sec < -latest || when->tv_sec > latest) return std::nullopt;
    return when->tv_sec * 1'000'000'000 + when->tv_nsec;
}

}  // namespace callgate::audit
