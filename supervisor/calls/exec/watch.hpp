// The second judgement of an execve(2): of what the kernel really made of it, before its first instruction.
//
// An execve is continued, so the kernel reads path and arguments again and walks to the file again; an
// attacker may have changed all of that since it was judged. Here the new program is held at its start
// (kernel/tracer.hpp) and compared with what was judged: the file that runs, by device and inode of
// /proc/PID/exe (the judged one is pinned, so its number is nobody else's), and the arguments as the new
// program has them, where they were judged. What differs is put on record and killed: that process only.
//
// Not held: what the compared file is then made to do. The text of a script is read by its interpreter, which
// opens it by name again (that is judged as `read`), and who may write into the new program's memory can
// change its arguments after they were compared: `argv` identifies, it does not confine.
#pragma once

#include <cstdint>

#include "supervisor/decide/decide.hpp"
#include "supervisor/kernel/argument_list.hpp"

namespace callgate::calls {

/// What is to run where nothing was changed meanwhile.
struct ExpectedProgram {
    audit::FileIdentity file;
    kernel::ExpectedArguments arguments;
};

/// Puts an allowing verdict on record, lets the kernel execute, and judges again what it made of it. Answers
/// the call in every case. Where the caller cannot be held, it is denied on record.
void execute_watched(CallContext& context, const Subject& subject, const rules::Verdict& verdict,
                     const ExpectedProgram& expected);

}  // namespace callgate::calls
