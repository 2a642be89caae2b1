// The second judgement of an execve(2): of the program that really starts, before its first instruction.
//
// An execve is continued, so the kernel reads path and arguments again and walks to the file again. An
// attacker may have changed all of that since it was judged. Here the new program is held at its start
// (kernel/tracer.hpp) and compared with the judged one. The running file is compared by device and inode of
// /proc/PID/exe; the judged file is pinned, so no other file gets its number. The arguments are compared as
// the new program has them, if they were judged. A difference is put on record, and that process is killed.
//
// There, too, the agent's own variables are taken from a tool. The first record names those that are given.
// If there are others by then, the process is killed.
//
// Not held: what the compared file is then made to do. An interpreter opens the text of its script by name
// again; that is judged as `read`. A process that may write into the new program's memory can change its
// arguments after they were compared: `argv` identifies, it does not confine.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "supervisor/calls/exec/needs.hpp"
#include "supervisor/decide/decide.hpp"
#include "supervisor/decide/parties.hpp"
#include "supervisor/kernel/argument_list.hpp"

namespace callgate::calls {

/// The program that runs if nothing was changed meanwhile.
struct ExpectedProgram {
    audit::FileIdentity file;
    kernel::ExpectedArguments arguments;
    /// The stage of the command's process once it runs.
    Parties::Stage next = Parties::Stage::tools;
    /// Variables that are taken from it, and how many of these it is given.
    std::span<const std::string> variables{};
    std::size_t withheld = 0;
};

/// Puts an allowing verdict on record, lets the kernel execute, and judges the new program. Answers the call
/// in every case. If the caller cannot be held, it is denied on record.
void execute_watched(ExecCall& context, const Subject& subject, const rules::Verdict& verdict,
                     const ExpectedProgram& expected);

}  // namespace callgate::calls
