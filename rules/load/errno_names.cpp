// The errno names that a rule may state for a denial.
#include <array>
#include <cerrno>

#include "rules/load/rule_parser.hpp"

namespace callgate::rules {
namespace {

// Left out are EINTR and EAGAIN, after which programs try again, and the kernel's restart codes.
constexpr std::array<std::string_view, 26> words{
    "EACCES",       "EPERM",          "ENOENT",    "EROFS",      "ECONNREFUSED",  "ENETUNREACH",
    "EHOSTUNREACH", "ENETDOWN",       "ETIMEDOUT", "ECONNRESET", "EADDRNOTAVAIL", "EADDRINUSE",
    "ENOTDIR",      "EISDIR",         "EEXIST",    "ENODEV",     "ENXIO",         "EBUSY",
    "EIO",          "ENOSPC",         "EDQUOT",    "EFBIG",      "EINVAL",        "ENOSYS",
    "EOPNOTSUPP",   "EPROTONOSUPPORT"};
constexpr std::array<int, words.size()> numbers{
    EACCES,     EPERM,          ENOENT,        EROFS,      ECONNREFUSED, ENETUNREACH, EHOSTUNREACH, ENETDOWN,
    ETIMEDOUT,  ECONNRESET,     EADDRNOTAVAIL, EADDRINUSE, ENOTDIR,      EISDIR,      EEXIST,       ENODEV,
    ENXIO,      EBUSY,          EIO,           ENOSPC,     EDQUOT,       EFBIG,       EINVAL,       ENOSYS,
    EOPNOTSUPP, EPROTONOSUPPORT};

}  // namespace

std::span<const std::string_view> errno_names() { return words; }

std::optional<int> errno_number(std::string_view name) {
    for (std::size_t index = 0; index < words.size(); ++index)
        if (words[index] == name) return numbers[index];
    return std::nullopt;
}

}  // namespace callgate::rules
