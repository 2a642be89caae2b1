#include "base/write_error.hpp"

#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>

#include "base/test_switch.hpp"

namespace callgate {

void write_error(std::string_view text) {
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
