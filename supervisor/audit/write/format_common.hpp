// The parts that all kinds of lines have, for the sources of format.hpp only.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "supervisor/audit/write/format.hpp"

namespace callgate::audit {

/// Appends room for the sequence number, then the line up to and with `"kind":"event",` (the time is now).
void begin_line(Buffer& out);
/// `,"callgate":{"schema":…,"run":…,"mode":…`
void begin_callgate(Buffer& out, const RunContext& context);
/// `}`, the still open integrity (chain.hpp) and the newline.
void end_line(Buffer& out);
/// `,"NAME":[…]`, secrets taken out; also `,"NAME_cut":true` if only the first of the arguments are there.
void append_arguments(Buffer& out, std::string_view name, std::span<const std::string> arguments);
/// `,"NAME":"..."`
void append_string(Buffer& out, std::string_view name, std::string_view value);
/// `,"NAME":"..."`, and also `,"NAME_b64":"..."` if the bytes are not valid UTF-8.
void append_bytes(Buffer& out, std::string_view name, std::string_view bytes);
/// `,"NAME":["..."]`
void append_strings(Buffer& out, std::string_view name, std::span<const std::string> values);
/// `,"NAME":[...]`
void append_operations(Buffer& out, std::string_view name, rules::OperationSet operations);
/// Appends the line up to its sequence number, of a record about no single call. Returns where the number
/// belongs.
std::size_t begin_event(Buffer& out, std::string_view type, std::string_view action,
                        std::string_view outcome);
/// `,"process":{…},"user":{…}`
void append_caller(Buffer& out, const Caller& caller);
/// `,"file":{…}` or `,"destination":{…},"network":{…}`: the fields that ECS has for it. `rule` may name its
/// host; it may be null.
void append_object(Buffer& out, const rules::Object& object, const std::optional<FileIdentity>& identity,
                   const rules::Rule* rule);
/// `,"socket_type":"…"`
void append_socket_type(Buffer& out, rules::UnixType type);
/// `,"program_b64":"…"` if the bytes are not valid UTF-8.
void append_exact_program(Buffer& out, std::string_view program);
/// `"0644"`
void append_octal(Buffer& out, std::uint32_t mode);

}  // namespace callgate::audit
