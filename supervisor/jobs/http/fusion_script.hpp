// Members of SandboxFusion's requests, and the words and commands that scripts of its jobs consist of.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "supervisor/jobs/http/sandbox_fusion.hpp"

namespace callgate::jobs::http {

/// The member, or the default where it is missing or null.
[[nodiscard]] nlohmann::json given(const nlohmann::json& request, const char* name,
                                   const nlohmann::json& otherwise);
/// Throw InvalidRequest.
[[nodiscard]] std::string text_of(const nlohmann::json& request, const char* name);
[[nodiscard]] std::int64_t milliseconds_of(const nlohmann::json& request, const char* name, int usual = 10);
[[nodiscard]] std::vector<std::string> fetched(const nlohmann::json& request);

/// The text as one word of a shell, whatever bytes it has.
[[nodiscard]] std::string word(std::string_view text);
[[nodiscard]] std::string in_seconds(std::int64_t ms);
/// Commands that write the request's files. Throws InvalidRequest.
[[nodiscard]] std::string files_written(const nlohmann::json& request);
/// Commands that print a mark, and each file that is there as "NUMBER CONTENT".
[[nodiscard]] std::string fetching(const FusionJob& made);

/// The job's own limit is so much beyond those of timeout(1).
inline constexpr std::int64_t surplus_ms = 10'000;

inline constexpr std::string_view entering = "cd \"${TMPDIR:?}\" || exit 125\n";

}  // namespace callgate::jobs::http
