#include "supervisor/names/room.hpp"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <utility>
#include <vector>

#include "base/descriptor_message.hpp"

namespace callgate::names {

namespace {

constexpr std::size_t max_askers = 8192;

/// The address that this machine would send from; false if it has no route. No packet is sent.
bool source_towards(int family, const char* far, void* into, std::size_t size) {
    const UniqueFd socket(::socket(family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    sockaddr_storage address{};
    socklen_t length = sizeof address;
    if (family == AF_INET) {
        auto* const four = reinterpret_cast<sockaddr_in*>(&address);
        four->sin_family = AF_INET;
        four->sin_port = htons(9);
        ::inet_pton(AF_INET, far, &four->sin_addr);
        length = sizeof *four;
    } else {
        auto* const six = reinterpret_cast<sockaddr_in6*>(&address);
        six->sin6_family = AF_INET6;
        six->sin6_port = htons(9);
        ::inet_pton(AF_INET6, far, &six->sin6_addr);
        length = sizeof *six;
    }
    if (!socket || ::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), length) != 0)
        return false;
    length = sizeof address;
    if (::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&address), &length) != 0) return false;
    const void* const from =
        family == AF_INET ? static_cast<const void*>(&reinterpret_cast<sockaddr_in*>(&address)->sin_addr)
                          : &reinterpret_cast<sockaddr_in6*>(&address)->sin6_addr;
    std::memcpy(into, from, size);
    return true;
}

std::optional<std::uint64_t> network_of(int socket) {
    std::uint64_t cookie = 0;
    socklen_t size = sizeof cookie;
    if (::getsockopt(socket, SOL_SOCKET, SO_NETNS_COOKIE, &cookie, &size) != 0) return std::nullopt;
    return cookie;
}

}  // namespace

OuterAddresses outer_addresses() {
    OuterAddresses outer;
    // Addresses for documentation: no packet is sent, and routes to them are those to anywhere.
    outer.has_four = source_towards(AF_INET, "192.0.2.1", outer.four, sizeof outer.four);
    outer.has_six = source_towards(AF_INET6, "2001:db8::1", outer.six, sizeof outer.six);
    if (outer.has_four && outer.has_six) return outer;
    // A machine without a route to anywhere may have some to its own network.
    ifaddrs* all = nullptr;
    if (::getifaddrs(&all) != 0) return outer;
    for (const ifaddrs* one = all; one != nullptr; one = one->ifa_next) {
        if (one->ifa_addr == nullptr) continue;
        if (one->ifa_addr->sa_family == AF_INET && !outer.has_four) {
            const in_addr address = reinterpret_cast<const sockaddr_in*>(one->ifa_addr)->sin_addr;
            if (ntohl(address.s_addr) >> 24U == IN_LOOPBACKNET) continue;
            std::memcpy(outer.four, &address, sizeof outer.four);
            outer.has_four = true;
        } else if (one->ifa_addr->sa_family == AF_INET6 && !outer.has_six) {
            const in6_addr& address = reinterpret_cast<const sockaddr_in6*>(one->ifa_addr)->sin6_addr;
            if (IN6_IS_ADDR_LOOPBACK(&address) || IN6_IS_ADDR_LINKLOCAL(&address)) continue;
            std::memcpy(outer.six, &address, sizeof outer.six);
            outer.has_six = true;
        }
    }
    ::freeifaddrs(all);
    return outer;
}

Room::~Room() {
    if (helper_ <= 0) return;
    ::kill(helper_, SIGKILL);
    while (::waitpid(helper_, nullptr, 0) < 0 && errno == EINTR) {
    }
}

Result<std::vector<UniqueFd>> Room::receive(std::size_t count) const {
    DescriptorMessage<int, 3> message;
    ssize_t got = 0;
    while ((got = ::recvmsg(channel_.get(), &message.header, MSG_CMSG_CLOEXEC)) < 0 && errno == EINTR) {
    }
    if (got != sizeof(int)) return errno_code(got < 0 ? errno : EPIPE);
    std::array<int, 3> numbers{-1, -1, -1};
    std::vector<UniqueFd> descriptors;
    for (std::size_t index = 0, all = message.take(numbers); index < all; ++index)
        descriptors.emplace_back(numbers[index]);
    if (message.content != 0) return errno_code(message.content);
    if (descriptors.size() < count) return errno_code(EPROTO);
    return descriptors;
}

/// 0 or an errno.
int Room::start() {
    std::array<int, 2> ends{};
    if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()) != 0) return errno;
    channel_.reset(ends[0]);
    const UniqueFd theirs(ends[1]);
    const OuterAddresses outer = outer_addresses();
    sigset_t all, before;
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &before);  // no handler of ours runs in the child
    helper_ = ::fork();
    if (helper_ == 0) serve_room(theirs.get(), outer);
    const int error = helper_ < 0 ? errno : 0;
    ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
    return error;
}

int Room::make() {
    if (const int error = start()) return error;
    auto made = receive(2);
    if (!made) return made.error().value();
    diagnosis_ = std::move(made->front());
    made->erase(made->begin());
    servers_ = std::move(*made);
    const auto cookie = network_of(servers_.front().get());
    if (!cookie) return EOPNOTSUPP;
    cookie_ = *cookie;
    return 0;
}

Result<UniqueFd> Room::socket(int family, int type, Asker asker) {
    const std::lock_guard guard(lock_);
    if (state_ == State::none) {
        error_ = make();
        state_ = error_ == 0 ? State::ready : State::failed;
    }
    if (state_ == State::failed) return errno_code(EPROTONOSUPPORT);
    const int wanted[2] = {family, type};
    // If the helper has ended, there is no room any more; look-ups over TCP go on.
    if (::send(channel_.get(), wanted, sizeof wanted, MSG_NOSIGNAL) != sizeof wanted)
        return errno_code(EPROTONOSUPPORT);
    auto made = receive(1);
    if (!made) {
        const int error = made.error().value();
        return errno_code(error == EPIPE || error == ECONNRESET ? EPROTONOSUPPORT : error);
    }
    struct stat status {};
    if (::fstat(made->front().get(), &status) != 0) return errno_code();
    if (askers_.size() >= max_askers) {
        // The older half goes: few sockets of a run are open at once.
        for (std::size_t index = 0; index < order_.size() / 2; ++index) askers_.erase(order_[index]);
        order_.erase(order_.begin(), order_.begin() + static_cast<std::ptrdiff_t>(order_.size() / 2));
    }
    asker.judges = nullptr;
    if (askers_.insert_or_assign(status.st_ino, std::move(asker)).second) order_.push_back(status.st_ino);
    return std::move(made->front());
}

bool Room::holds(int socket) const {
    const std::lock_guard guard(lock_);
    return state_ == State::ready && network_of(socket) == cookie_;
}

std::vector<UniqueFd> Room::take_servers() {
    const std::lock_guard guard(lock_);
    return std::move(servers_);
}

Place place_of(const sockaddr_storage& address) {
    Place place{};
    if (address.ss_family == AF_INET6) {
        const auto& six = reinterpret_cast<const sockaddr_in6&>(address);
        std::memcpy(place.first.data(), &six.sin6_addr, sizeof six.sin6_addr);
        place.second = ntohs(six.sin6_port);
        return place;
    }
    const auto& four = reinterpret_cast<const sockaddr_in&>(address);
    place.first[10] = place.first[11] = 0xff;
    std::memcpy(place.first.data() + 12, &four.sin_addr, sizeof four.sin_addr);
    place.second = ntohs(four.sin_port);
    return place;
}

namespace {

/// Whether a socket of this family, bound to this address or to all, sends from `local`.
bool sends_from(int family, const __be32* bound, const std::array<std::uint8_t, 16>& local) {
    const std::size_t size = family == AF_INET ? 4 : 16;
    const in6_addr all{};
    return std::memcmp(bound, &all, size) == 0 || std::memcmp(bound, local.data() + 16 - size, size) == 0;
}

}  // namespace

/// Asks the kernel which socket of the room has this address (sock_diag(7)). Nothing if more than one has.
std::optional<ino_t> Room::inode_of(int family, const sockaddr_storage& local) const {
    const auto [address, port] = place_of(local);
    struct {
        nlmsghdr head;
        inet_diag_req_v2 wanted;
    } request{};
    request.head.nlmsg_len = sizeof request;
    request.head.nlmsg_type = SOCK_DIAG_BY_FAMILY;
    request.head.nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP;
    request.wanted.sdiag_family = static_cast<std::uint8_t>(family);
    request.wanted.sdiag_protocol = IPPROTO_UDP;
    request.wanted.idiag_states = ~0U;
    request.wanted.id.idiag_sport = htons(port);
    if (::send(diagnosis_.get(), &request, sizeof request, 0) < 0) return std::nullopt;
    std::vector<ino_t> found;
    const auto only = [&found] { return found.size() == 1 ? std::optional(found.front()) : std::nullopt; };
    alignas(nlmsghdr) std::array<char, 8192> reply{};
    for (;;) {
        const ssize_t got = ::recv(diagnosis_.get(), reply.data(), reply.size(), MSG_DONTWAIT);
        if (got <= 0) return only();
        auto left = static_cast<unsigned>(got);
        for (auto* one = reinterpret_cast<nlmsghdr*>(reply.data()); NLMSG_OK(one, left);
             one = NLMSG_NEXT(one, left)) {
            if (one->nlmsg_type == NLMSG_DONE || one->nlmsg_type == NLMSG_ERROR) return only();
            const auto* const socket = static_cast<const inet_diag_msg*>(NLMSG_DATA(one));
            if (ntohs(socket->id.idiag_sport) == port && sends_from(family, socket->id.idiag_src, address))
                found.push_back(socket->idiag_inode);
        }
    }
}

Asker Room::owner(const sockaddr_storage& local) {
    const std::lock_guard guard(lock_);
    if (state_ != State::ready) return {};
    auto inode = inode_of(local.ss_family, local);
    // An IPv6 socket may send to IPv4 addresses.
    if (!inode && local.ss_family == AF_INET) inode = inode_of(AF_INET6, local);
    const auto found = inode ? askers_.find(*inode) : askers_.end();
    return found != askers_.end() ? found->second : Asker();
}

}  // namespace callgate::names
