#include "supervisor/audit/timestamp.hpp"

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

}  // namespace callgate::audit
