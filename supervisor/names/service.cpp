#include "supervisor/names/service.hpp"

#include <algorithm>
#include <boost/asio/post.hpp>
#include <iterator>

#include "base/test_switch.hpp"

namespace callgate::names {

Bindings::Names Service::names_of(const rules::IpAddress& address) {
    {
        const std::lock_guard guard(hosts_lock_);
        if (hosts_.refresh()) {
            for (const auto& [name, addresses] : hosts_.all()) {
                if (!look_ups_.named(name)) continue;  // else its addresses are judged as addresses
                for (const rules::IpAddress& one : addresses) bindings_.bind(name, one);
            }
        }
    }
    return bindings_.names_of(address);
}

bool Service::holds(int socket) const {
    const std::lock_guard guard(servers_lock_);
    return std::ranges::any_of(servers_, [socket](const auto& one) { return one->holds(socket); });
}

std::shared_ptr<Stub> Service::server_of(const Asker& asker) {
    const std::lock_guard guard(servers_lock_);
    const auto found = std::ranges::find_if(servers_, [&asker](const auto& one) {
        return one->askers.hold(asker) || !check_enabled("own-servers-of-names");
    });
    if (found != servers_.end()) return *found;
    // The loop's thread drops those of nested runs that have ended.
    const auto ended =
        std::partition(servers_.begin(), servers_.end(), [](const auto& one) { return !one->askers.over(); });
    std::vector<std::shared_ptr<Stub>> gone(std::make_move_iterator(ended),
                                            std::make_move_iterator(servers_.end()));
    servers_.erase(ended, servers_.end());
    if (!gone.empty()) boost::asio::post(loop_, [gone = std::move(gone)] {});
    return servers_.emplace_back(std::make_shared<Stub>(loop_, look_ups_, AskersJudgedAlike(asker)));
}

std::string Service::text(NameFile file, bool patient) {
    const std::string own = text_of(file);
    if (file == NameFile::name_switch) return switch_text(own);
    if (file == NameFile::servers) return servers_text(own, patient);
    return hosts_text(own, look_ups_.literal_hosts());
}

}  // namespace callgate::names
