// The three files by which programs find name servers, as the run sees them where there is no room.
//
// Most programs can ask over TCP, if these files say so. `nsswitch.conf` sends them to the name servers
// before anything else. `resolv.conf` names one server, and TCP. `hosts` holds the addresses of names that
// are allowed, for programs that know no TCP. All other lines are the user's own. The texts are handed over
// as memory files, so nothing on the machine changes. An attacker can learn from them only what it may look
// up. Any thread.
#pragma once

#include <sys/stat.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "rules/model/request.hpp"

namespace callgate::names {

enum class NameFile : std::uint8_t { name_switch, servers, hosts };

/// The file that an object is now, whatever name led to it.
[[nodiscard]] std::optional<NameFile> name_file(const struct stat& object);
/// The resolved paths of the files that exist.
[[nodiscard]] std::vector<std::string> paths_of_name_files();
/// The user's own text; "" if it cannot be read.
[[nodiscard]] std::string text_of(NameFile file);

/// nsswitch.conf(5): hosts by `file dns files`. `file` is no module; the C library skips it, and c-ares takes
/// it for the hosts file.
[[nodiscard]] std::string switch_text(std::string_view own);
/// resolv.conf(5): one server on loopback, by TCP. `patient`: questions may come, so programs should wait.
[[nodiscard]] std::string servers_text(std::string_view own, bool patient);
/// hosts(5): the user's lines, then these.
using HostLine = std::pair<std::string, std::vector<rules::IpAddress>>;
[[nodiscard]] std::string hosts_text(std::string_view own, const std::vector<HostLine>& more);

/// Why this user can make no room here (room.hpp), found out without making one; "" if it can.
[[nodiscard]] std::string_view room_obstacle();

}  // namespace callgate::names
