// The logs of a state directory, as files. Names there are ours (`<UTC time>-<run>.jsonl`), but whoever may
// write to the directory may have put anything in it.
#pragma once

#include <string>
#include <vector>

namespace callgate::audit {

/// First segments in `directory`, oldest first; none where it cannot be read.
[[nodiscard]] std::vector<std::string> logs_in(const std::string& directory);

/// "/state/20261120T101112Z-k3f9.jsonl" → "k3f9"; "" where the name is not of that form.
[[nodiscard]] std::string run_of(const std::string& path);

}  // namespace callgate::audit
