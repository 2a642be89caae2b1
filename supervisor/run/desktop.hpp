// Tells the person's desktop that a question waits (--notify desktop): org.freedesktop.Notifications, by
// systemd's busctl(1). The program is none of the run: it has callgate's own environment and is found in
// system directories alone. The target chooses the names in a question, so these are shown as names for
// people are, and bounded; no mark-up stays. Event loop.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "supervisor/approval/approval_service.hpp"

namespace callgate {

/// The path of busctl; "" if there is none.
[[nodiscard]] std::string find_busctl();

/// The words of busctl that show the first of `count` questions of a run.
[[nodiscard]] std::vector<std::string> notification_words(const std::string& run,
                                                          const approval::Question& first, std::size_t count);

class Desktop {
public:
    /// `failed` is called once, if the desktop could not be told.
    Desktop(boost::asio::io_context& loop, std::function<void()> failed)
        : loop_(loop), failed_(std::move(failed)) {}

    /// Sends one notification. While one is sent, the next is left out.
    void tell(const std::string& run, const approval::Question& first, std::size_t count);

private:
    void ended(bool told);

    boost::asio::io_context& loop_;
    std::function<void()> failed_;  // empty once it was called
    std::optional<boost::asio::posix::stream_descriptor> sending_;
};

}  // namespace callgate
