#include "supervisor/nested/outer_run.hpp"

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>

#include "base/json_read.hpp"
#include "base/write_all.hpp"
#include "supervisor/nested/channel.hpp"

namespace callgate::nested {

using nlohmann::json;

namespace {

constexpr int max_wait_ms = 60'000;

bool peer_has_no_name(int socket) {
    sockaddr_un peer{};
    socklen_t size = sizeof peer;
    return ::getpeername(socket, reinterpret_cast<sockaddr*>(&peer), &size) == 0 &&
           size <= sizeof(sa_family_t);
}

}  // namespace

Expected<OuterRun> OuterRun::find() {
    UniqueFd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path + 1, calls::reserved_name.data(), calls::reserved_name.size());
    const auto size =
        static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + calls::reserved_name.size());
    if (!socket || ::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), size) != 0)
        return Problem{std::generic_category().message(errno)};
    if (!peer_has_no_name(socket.get())) return Problem{"another process listens at @callgate"};
    OuterRun found(std::move(socket));
    const Expected<json> hello = found.ask({{"do", "hello"}});
    if (!hello) return hello.error();
    found.run_ = json_read::text(json_read::member(*hello, "run"));
    found.denials_ = json_read::text(json_read::member(*hello, "denials"));
    return found;
}

Expected<json> OuterRun::ask(const json& request) {
    json whole = request;
    whole["callgate"] = protocol_version;
    const Problem gone{"the run around this one does not answer"};
    if (!write_all(socket_.get(), whole.dump() + '\n')) return gone;
    std::string line;
    std::array<char, 16384> piece{};
    while (line.find('\n') == std::string::npos && line.size() < max_line) {
        pollfd ready{socket_.get(), POLLIN, 0};
        const int found = ::poll(&ready, 1, max_wait_ms);
        if (found < 0 && errno == EINTR) continue;
        const ssize_t got = found > 0 ? ::read(socket_.get(), piece.data(), piece.size()) : -1;
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) return gone;
        line.append(piece.data(), static_cast<std::size_t>(got));
    }
    json answer = json_read::parse_object(line);
    if (answer.is_null()) return gone;
    if (!json_read::truth(json_read::member(answer, "ok")))
        return Problem{json_read::text(json_read::member(answer, "error"))};
    return answer;
}

Expected<OuterRun::Place> OuterRun::nest(const Wish& wish) {
    const Expected<json> answer = ask({{"do", "nest"},
                                       {"run", wish.run},
                                       {"rules", wish.rules},
                                       {"workdir", wish.workdir},
                                       {"guardian", wish.guardian},
                                       {"ask", wish.asks},
                                       {"sni", wish.sni}});
    if (!answer) return answer.error();
    using namespace json_read;
    Place place{.token = text(member(*answer, "token")), .grants = {}};
    for (const json& one : member(*answer, "grants")) {
        const auto operations = static_cast<int>(number(member(one, "operations")));
        place.grants.push_back({.path = text(member(one, "path")),
                                .directory = truth(member(one, "directory")),
                                .operations = rules::OperationSet::from_bits(operations),
                                .rules = {},
                                .notify_only_read = truth(member(one, "notify_only_read")),
                                .notify_only_execute = truth(member(one, "notify_only_execute"))});
    }
    return place;
}

Expected<json> OuterRun::report() {
    Expected<json> answer = ask({{"do", "report"}});
    if (!answer) return answer.error();
    return json(json_read::member(*answer, "report"));
}

}  // namespace callgate::nested
