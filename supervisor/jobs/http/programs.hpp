// The programs that this machine has of those that languages need.
#pragma once

#include <string_view>

namespace callgate::jobs::http {

/// Looks for them once, before the process is confined: later nothing can be opened.
void find_programs();
[[nodiscard]] bool has_program(std::string_view name);

}  // namespace callgate::jobs::http
