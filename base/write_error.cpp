#include "base/write_error.hpp"

#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <string>

#include "base/test_switch.hpp"

namespace callgate {

namespace {

/// Ends a string or a sequence (CAN, ST). Then margins, which move the cursor, wrapping at the last column,
/// attributes and character sets. A terminal ignores what it does not know.
constexpr std::string_view readable =
    "\x18\x1b\\\x1b"
    "7\x1b[r\x1b"
    "8\x1b[?7h\x1b[?2026l\x1b[0m\x1b(B\x0f";

bool terminal_reads_sequences() {
    const char* const kind = ::getenv("TERM");
    return ::isatty(STDERR_FILENO) != 0 && kind != nullptr && std::string_view(kind) != "dumb" &&
           check_enabled("footer-seen");
}

}  // namespace

void write_error(std::string_view said) {
    const std::string seen =
        terminal_reads_sequences() && !said.empty() ? std::string(readable).append(said) : std::string();
    std::string_view text = seen.empty() ? said : seen;
    while (!text.empty()) {
        const ssize_t put = ::write(STDERR_FILENO, text.data(), text.size());
        if (put > 0) {
            text.remove_prefix(static_cast<std::size_t>(put));
        } else if (put < 0 && errno == EAGAIN && check_enabled("stderr-full")) {
            pollfd one{STDERR_FILENO, POLLOUT, 0};
            static_cast<void>(::poll(&one, 1, -1));
        } else if (put == 0 || errno != EINTR) {
            return;
        }
    }
}

}  // namespace callgate
