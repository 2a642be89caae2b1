#include "supervisor/names/service.hpp"

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

Result<UniqueFd> Service::udp_socket(int family, int type, const Asker& asker) {
    auto made = room_.socket(family, type, asker);
    if (made) std::call_once(served_, [this] { stub_.serve(room_.take_servers()); });
    return made;
}

std::string Service::text(NameFile file, bool patient) {
    const std::string own = text_of(file);
    if (file == NameFile::name_switch) return switch_text(own);
    if (file == NameFile::servers) return servers_text(own, patient);
    return hosts_text(own, look_ups_.literal_hosts());
}

}  // namespace callgate::names
