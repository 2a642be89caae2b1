// Says which build of callgate this is (cmake/version.cmake).
#pragma once

#include <string_view>

namespace callgate::cli {

/// Commit, kind of build and compiler, such as `e43f830, release, gcc 12.2.0`. A build without a repository
/// has no commit; a `+` behind the commit means that sources were changed since.
extern const std::string_view build_info;

}  // namespace callgate::cli
