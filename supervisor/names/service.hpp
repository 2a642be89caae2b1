// Look-ups of a run: what the handlers of sockets need, in one place.
//
// Everything is made at its first use: a run that looks nothing up pays nothing. Any thread, unless noted.
#pragma once

#include <boost/asio/io_context.hpp>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "supervisor/names/bindings.hpp"
#include "supervisor/names/look_ups.hpp"
#include "supervisor/names/name_files.hpp"
#include "supervisor/names/stub.hpp"

namespace callgate::names {

class Service {
public:
    /// `loop` and `needs` outlive it. Loop thread, or before the loop runs.
    Service(boost::asio::io_context& loop, calls::DecideNeeds& needs)
        : loop_(loop), look_ups_(loop, needs, bindings_) {}

    /// The names of an address, those of /etc/hosts too; null if it has none.
    [[nodiscard]] Bindings::Names names_of(const rules::IpAddress& address);
    /// The names that the address had before it was dropped (bindings.hpp); null if there are none.
    [[nodiscard]] Bindings::Names former_names(const rules::IpAddress& address) const {
        return bindings_.former_names(address);
    }
    /// See LookUps::look_up_again.
    void look_up_again(const std::vector<std::string>& names, const rules::IpAddress& address,
                       const Asker& asker, const std::function<bool()>& wanted) {
        look_ups_.look_up_again(names, address, asker, wanted);
    }
    /// The name that was answered with an address that it must not have; "" if there is none.
    [[nodiscard]] std::string refused_name(const rules::IpAddress& address) const {
        return bindings_.refused_name(address);
    }
    /// See LookUps::answered.
    [[nodiscard]] std::optional<OnceAnswered> answered(const Asker& asker,
                                                       const std::vector<std::string>& names) const {
        return look_ups_.answered(asker, names);
    }

    /// Whether the socket is one of a room.
    [[nodiscard]] bool holds(int socket) const;
    /// The name server of those whom the same rules judge as `asker`. It lives as long as their nested run.
    [[nodiscard]] std::shared_ptr<Stub> server_of(const Asker& asker);

    /// The text of a file about name servers, as the run sees it. The addresses of names that are allowed
    /// literally are looked up for `hosts`; that takes at most 300 ms. `patient`: see servers_text.
    [[nodiscard]] std::string text(NameFile file, bool patient);

private:
    boost::asio::io_context& loop_;
    Bindings bindings_;
    LookUps look_ups_;
    mutable std::mutex servers_lock_;
    std::vector<std::shared_ptr<Stub>> servers_;
    std::mutex hosts_lock_;
    Hosts hosts_;
};

}  // namespace callgate::names
