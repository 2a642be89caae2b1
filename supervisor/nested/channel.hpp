// The channel between a process of the run and the supervisor: lines of JSON over a socket that the
// supervisor makes (calls/network/reserved_name.hpp).
//
// A request is `{"callgate":1,"do":"hello"}` and a newline. Its answer is `{"callgate":1,"ok":true,...}` or
// `{"callgate":1,"ok":false,"error":"..."}` in one line. A connection has one request at a time: the next
// line is read when the answer was taken.
//
// An attacker in the run sends anything, never reads, and opens as many connections as it may. Lines,
// connections and unread answers are bounded. A thread of its own serves the channel, so neither a call nor
// the event loop waits for it.
#pragma once

#include <atomic>
#include <boost/asio/io_context.hpp>
#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "base/unique_fd.hpp"
#include "supervisor/calls/network/reserved_name.hpp"

namespace callgate::nested {

inline constexpr int protocol_version = 1;
/// The longest line of a request, and of an answer.
inline constexpr std::size_t max_line = std::size_t{2} << 20U;
inline constexpr int max_connections = 256;
/// Bytes of lines that all connections together keep: begun requests, and answers that nobody has read.
inline constexpr std::size_t max_held = std::size_t{16} << 20U;

class Channel final : public calls::ReservedName {
public:
    /// The process that opened a connection.
    struct Peer {
        pid_t process = 0;
        /// Judges its calls.
        std::shared_ptr<calls::DecideNeeds> needs{};
        /// Called once when the connection has ended; may be set by a handler.
        std::function<void()> ended{};
        /// The answer to the request "report": one JSON value; may be set by a handler.
        std::function<std::string()> report{};
        /// Ends the connection. Any thread.
        std::function<void()> hang_up{};
    };
    /// Takes one line without its newline, once.
    using Answer = std::function<void(std::string line)>;
    /// On the channel's thread. The request has the right version.
    using Handler = std::function<void(Peer& peer, const nlohmann::json& request, Answer answer)>;

    /// `run` is the run's name.
    Channel(const std::string& run, const std::string& denials);
    Channel(const Channel&) = delete;
    Channel& operator=(const Channel&) = delete;
    ~Channel() override;

    /// Before the first call is handled. `word` is the value of "do".
    void on(const std::string& word, Handler handler) { handlers_[word] = std::move(handler); }
    /// Answers a connect to "callgate/WORD/...": `rest` is what stands behind the second slash. Before the
    /// first call is handled. Any thread.
    using Named = std::function<void(calls::NetworkCall& context, std::string_view rest)>;
    void on_name(const std::string& word, Named named) { named_[word] = std::move(named); }

    void connect(calls::NetworkCall& context, int number, std::string_view name) override;

private:
    class Connection;
    void open(calls::NetworkCall& context, int number);
    void serve();

    std::map<std::string, Handler, std::less<>> handlers_;
    std::map<std::string, Named, std::less<>> named_;
    std::once_flag started_;
    std::shared_ptr<boost::asio::io_context> loop_;
    std::atomic<int> connections_{0};
    std::atomic<std::size_t> held_{0};  // bytes of lines that the connections keep
};

/// The line of an answer that something failed. `error` is for a person.
[[nodiscard]] std::string error_line(std::string_view error);

}  // namespace callgate::nested
