// Copies of settings files without their credentials: what a run gets in place of a file that a rule marks
// as `filtered`.
//
// Each known format has an allow-list of keys. A key that is not on it is left out. So is what is not
// understood, if the format lets it be left out; else there is no copy. URLs lose their user, query and
// fragment. So an unknown key never passes. The file is the user's own; the target cannot write it, but may
// choose which one is opened. Pure.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace callgate::calls {

/// Whether files of this path have a known format. The last two components decide ("~/.cargo/config.toml").
[[nodiscard]] bool settings_known(std::string_view path);

/// The harmless part of `content`, in the same format. Nothing if the format is not known, or if the content
/// does not have it. A shell's log-in file is code, so nothing of it stays: `login_file` stands in its place.
[[nodiscard]] std::optional<std::string> settings_copy(std::string_view path, std::string_view content,
                                                       std::string_view login_file = {});

/// A log-in file that sets PATH to that of `environment` ("NAME=value"), as /etc/profile may have changed it.
[[nodiscard]] std::string login_file_of(std::span<const std::string> environment);

}  // namespace callgate::calls
