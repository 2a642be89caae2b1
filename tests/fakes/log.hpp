// Audit logs for tests: one that keeps its lines in memory, and one that cannot be written.
#pragma once

#include <doctest/doctest.h>
#include <fcntl.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "supervisor/audit/write/log.hpp"

namespace callgate::fakes {

/// A real log on /dev/null. Its lines are kept, and `on_record` runs when each has just been written: a test
/// sees there that nothing has happened yet.
struct KeptLog {
    std::vector<std::string> lines;
    std::function<void()> on_record;
    std::unique_ptr<audit::Log> log = open("/dev/null", [this](std::string_view line) {
        lines.emplace_back(line);
        if (on_record) on_record();
    });

    static std::unique_ptr<audit::Log> open(const char* path,
                                            std::function<void(std::string_view line)> copy) {
        UniqueFd fd(::open(path, O_WRONLY | O_CLOEXEC | O_APPEND));
        REQUIRE(fd.valid());
        auto made = audit::Log::on_descriptor(std::move(fd), {.run = "test", .copy = std::move(copy)});
        REQUIRE(made.has_value());
        return std::move(*made);
    }

    [[nodiscard]] std::size_t count(std::string_view text) const {
        std::size_t found = 0;
        for (const std::string& line : lines) found += line.find(text) == std::string::npos ? 0U : 1U;
        return found;
    }
};

/// Every record fails with ENOSPC.
inline std::unique_ptr<audit::Log> full_log() { return KeptLog::open("/dev/full", {}); }

}  // namespace callgate::fakes
