// The machine's own name servers, asked by c-ares on the event loop.
//
// They are those of /etc/resolv.conf, which is read again when it has changed. Queries go out by UDP, and by
// TCP if an answer is truncated. An attacker chooses no byte of a query: it holds a name that was decided,
// and a known type. Loop thread only.
#pragma once

#include <boost/asio/io_context.hpp>
#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "supervisor/names/message.hpp"

namespace callgate::names {

class Upstream {
public:
    /// The file that names the servers, and how they are asked. Tests name others.
    struct Servers {
        std::string file = "/etc/resolv.conf";
        std::uint16_t port = 53;
        // Two tries, of 2.5 and 5 seconds: programs wait about ten. The defaults of c-ares are 75 in all.
        std::chrono::milliseconds first_try{2500};
    };
    explicit Upstream(boost::asio::io_context& loop);
    Upstream(boost::asio::io_context& loop, Servers servers);
    Upstream(const Upstream&) = delete;
    Upstream& operator=(const Upstream&) = delete;
    ~Upstream();

    /// The server's message, whatever it says; empty if no server answered. The view ends with the call.
    using Done = std::function<void(Bytes message)>;
    /// Asks for the records of class IN. `done` is called once, perhaps at once, and never after the Upstream
    /// is gone.
    void ask(const std::string& name, std::uint16_t type, Done done);

private:
    class Channel;
    void refresh();

    boost::asio::io_context& loop_;
    const Servers servers_;
    std::string read_;  // what identified the file when it was read
    std::shared_ptr<Channel> channel_;
};

}  // namespace callgate::names
