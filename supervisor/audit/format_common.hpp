// What every line has, whatever its kind: for the sources of format.hpp only.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "supervisor/audit/format.hpp"

namespace callgate::audit {

/// Room for the sequence number, then the line up to and with `"kind":"event",` (the time is now).
void begin_line(Buffer& out);
/// `,"callgate":{"schema":…,"run":…,"mode":…`
void begin_callgate(Buffer& out, const RunContext& context);
/// `},"integrity":null}` and the newline: `integrity` is where a hash chain has its place (audit.md).
void end_line(Buffer& out);
/// `,"NAME":[…]`, secrets taken out; with `,"NAME_cut":true` where only the first of them are there.
void append_arguments(Buffer& out, std::string_view name, std::span<const std::string> arguments);
/// `"0644"`
void append_octal(Buffer& out, std::uint32_t mode);

}  // namespace callgate::audit
