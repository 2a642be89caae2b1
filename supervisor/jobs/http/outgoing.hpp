// Bytes that wait to be sent on a socket.
#pragma once

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <string>
#include <string_view>

namespace callgate::jobs::http {

class Outgoing {
public:
    void add(std::string_view bytes) { text_ += bytes; }
    [[nodiscard]] std::size_t size() const { return text_.size() - sent_; }

    /// Sends what there is room for. Returns false if the socket is broken. See send(2).
    [[nodiscard]] bool send(int socket) {
        while (size() > 0) {
            const ssize_t done = ::send(socket, text_.data() + sent_, size(), MSG_NOSIGNAL | MSG_DONTWAIT);
            if (done < 0 && errno == EINTR) continue;
            if (done < 0) return errno == EAGAIN || errno == EWOULDBLOCK;
            sent_ += static_cast<std::size_t>(done);
            forget_sent();
        }
        return true;
    }

private:
    /// Bytes that were sent are forgotten once they are half of the text.
    void forget_sent() {
        constexpr std::size_t few = 65536;
        if (size() > 0 && sent_ < std::max(text_.size() / 2, few)) return;
        text_.erase(0, sent_);
        if (text_.empty()) text_.shrink_to_fit();
        sent_ = 0;
    }

    std::string text_;
    std::size_t sent_ = 0;
};

}  // namespace callgate::jobs::http
