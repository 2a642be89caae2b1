// A name server: connections over loopback, and datagrams in the room.
//
// An attacker controls what is sent, how slowly, and on how many connections. It chooses the address that it
// sends from, too. So there is a server, with a room, for those whom the same rules judge: the run itself and
// each nested run, and each party. Whoever reaches it has a socket that was made for one of them. Which
// process that was is told by the address.
//
// A connection is served only if callgate connected it for a caller; its address and port say which. Nothing
// waits for a slow one. Loop thread only, unless noted.
#pragma once

#include <netinet/in.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "base/unique_fd.hpp"
#include "supervisor/names/look_ups.hpp"
#include "supervisor/names/room.hpp"

namespace callgate::names {

class Stub {
public:
    static constexpr std::size_t max_connections = 512, max_unmet = 64;

    /// It answers `askers`. The others outlive it. Any thread.
    Stub(boost::asio::io_context& loop, LookUps& look_ups, const AskersJudgedAlike& askers);
    Stub(const Stub&) = delete;
    Stub& operator=(const Stub&) = delete;
    ~Stub();

    /// The port of loopback where it listens, opened at the first call; 0 if that family has no loopback. Any
    /// thread.
    [[nodiscard]] std::uint16_t port(int family);
    /// A connection from this address of loopback was made for a caller. Any thread.
    void expect(const sockaddr_storage& local, Asker asker);

    /// A UDP socket of the room (room.hpp). Any thread.
    [[nodiscard]] Result<UniqueFd> udp_socket(int family, int type, const Asker& asker);
    /// Whether the socket is one of the room. Any thread.
    [[nodiscard]] bool holds(int socket) const { return room_.holds(socket); }

    const AskersJudgedAlike askers;

private:
    class Connection;
    class Datagrams;
    struct Listener {
        std::unique_ptr<boost::asio::ip::tcp::acceptor> acceptor;
        std::uint16_t port = 0;
        bool tried = false;
    };
    struct Unmet {
        boost::asio::ip::tcp::socket socket;
        std::chrono::steady_clock::time_point until;
    };

    void serve(std::vector<UniqueFd> sockets);
    std::uint16_t open(Listener& listener, int family);
    void accept(Listener& listener);
    void admit(boost::asio::ip::tcp::socket socket);
    void start(boost::asio::ip::tcp::socket socket, Asker asker);
    [[nodiscard]] std::optional<Asker> expected(const Place& from);
    void meet_unmet();
    void time_unmet();

    boost::asio::io_context& loop_;
    LookUps& look_ups_;
    Room room_;
    std::once_flag served_;
    Listener four_, six_;
    std::multimap<Place, Unmet> unmet_;  // by where they come from
    boost::asio::steady_timer timer_;
    std::shared_ptr<std::size_t> connections_ = std::make_shared<std::size_t>(0);
    std::vector<std::shared_ptr<Datagrams>> datagrams_;
    std::shared_ptr<int> alive_ = std::make_shared<int>();
    std::mutex lock_;
    std::map<Place, Asker> expected_;  // without their judges
};

}  // namespace callgate::names
