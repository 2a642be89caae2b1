// The logs of a state directory, as files. callgate names them `<UTC time>-<run>.jsonl`. An attacker who may
// write to the directory may have put anything in it.
#pragma once

#include <string>
#include <vector>

namespace callgate::audit {

/// First segments in `directory`, oldest first; empty if it cannot be read.
[[nodiscard]] std::vector<std::string> logs_in(const std::string& directory);

/// "/state/20261120T101112Z-k3f9.jsonl" → "k3f9"; "" if the name does not have that form.
[[nodiscard]] std::string run_of(const std::string& path);

}  // namespace callgate::audit
