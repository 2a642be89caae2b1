// The name by which a process of the run reaches callgate itself: the abstract unix socket "@callgate".
//
// No socket has that name. Every connect to it stops in the filter, and the supervisor answers it. So nobody
// outside is reached by it, whatever is bound there. Nobody outside reaches callgate by it, because only
// calls of the run stop. What runs without callgate meets whoever is bound there. It tells the two apart: the
// answered descriptor has a peer without a name.
//
// An attacker in the run controls the name behind the first word, the descriptor's number, and all that it
// sends afterwards. The descriptor that it had there is closed, as by dup2(2).
#pragma once

#include <string_view>

#include "supervisor/calls/network/needs.hpp"

namespace callgate::calls {

inline constexpr std::string_view reserved_name = "callgate";

/// `name` is that of an abstract socket.
[[nodiscard]] constexpr bool is_reserved(std::string_view name) {
    return name == reserved_name || (name.starts_with(reserved_name) && name[reserved_name.size()] == '/');
}

class ReservedName {
public:
    virtual ~ReservedName() = default;
    /// Answers a connect of the caller's descriptor `number` to a reserved name. Any thread; does not wait.
    virtual void connect(NetworkCall& context, int number, std::string_view name) = 0;
};

}  // namespace callgate::calls
