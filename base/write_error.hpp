// Lines for a person, on standard error.
//
// The target may share this descriptor. It may have made it non-blocking, and filled a pipe. The reader is
// an outside process. A terminal may be within an unfinished string, which would swallow the lines, or have
// attributes that hide them. So the lines follow what ends both.
#pragma once

#include <string_view>

namespace callgate {

/// Writes the text, by one write(2) if there is room, so that lines of other processes do not come in
/// between. Waits for a reader that does not read, whether the descriptor is blocking or not. Nothing is said
/// about a failure, for there is no place left.
void write_error(std::string_view text);

}  // namespace callgate
