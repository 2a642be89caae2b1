// The helper process of the room. It allocates nothing and calls only the kernel.
#include <arpa/inet.h>
#include <linux/if_addr.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sched.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/descriptor_message.hpp"
#include "supervisor/names/room.hpp"

namespace callgate::names {

namespace {

constexpr unsigned loopback_index = 1;  // of every new network namespace
constexpr int name_service = 53;

/// A request of rtnetlink(7).
class RouteRequest {
public:
    RouteRequest(std::uint16_t type, std::uint16_t flags) {
        head()->nlmsg_type = type;
        head()->nlmsg_flags = static_cast<std::uint16_t>(NLM_F_REQUEST | NLM_F_ACK | flags);
        head()->nlmsg_len = NLMSG_LENGTH(0);
    }
    template <class Body>
    Body& body() {
        head()->nlmsg_len = NLMSG_LENGTH(sizeof(Body));
        return *static_cast<Body*>(NLMSG_DATA(head()));
    }
    void add(std::uint16_t type, const void* data, std::size_t size) {
        auto* const one = reinterpret_cast<rtattr*>(buffer_ + NLMSG_ALIGN(head()->nlmsg_len));
        one->rta_type = type;
        one->rta_len = static_cast<std::uint16_t>(RTA_LENGTH(size));
        std::memcpy(RTA_DATA(one), data, size);
        head()->nlmsg_len =
            static_cast<std::uint32_t>(NLMSG_ALIGN(head()->nlmsg_len) + RTA_ALIGN(one->rta_len));
    }
    /// 0 or an errno.
    int send(int netlink) {
        if (::send(netlink, buffer_, head()->nlmsg_len, 0) < 0) return errno;
        alignas(nlmsghdr) char reply[1024];
        const ssize_t got = ::recv(netlink, reply, sizeof reply, 0);
        if (got < static_cast<ssize_t>(NLMSG_LENGTH(sizeof(nlmsgerr)))) return got < 0 ? errno : EPROTO;
        const auto* const answer = reinterpret_cast<const nlmsghdr*>(reply);
        if (answer->nlmsg_type != NLMSG_ERROR) return EPROTO;
        return -static_cast<const nlmsgerr*>(NLMSG_DATA(answer))->error;
    }

private:
    nlmsghdr* head() { return reinterpret_cast<nlmsghdr*>(buffer_); }
    alignas(nlmsghdr) char buffer_[256] = {};
};

int raise_loopback() {
    const int socket = ::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (socket < 0) return errno;
    ifreq request{};
    std::memcpy(request.ifr_name, "lo", 3);
    request.ifr_flags = IFF_UP | IFF_RUNNING;
    const int error = ::ioctl(socket, SIOCSIFFLAGS, &request) == 0 ? 0 : errno;
    ::close(socket);
    return error;
}

int add_address(int netlink, int family, const void* address, std::size_t size) {
    RouteRequest request(RTM_NEWADDR, NLM_F_CREATE | NLM_F_REPLACE);
    auto& body = request.body<ifaddrmsg>();
    body.ifa_family = static_cast<std::uint8_t>(family);
    body.ifa_prefixlen = static_cast<std::uint8_t>(size * 8);
    body.ifa_index = loopback_index;
    body.ifa_flags = family == AF_INET6 ? IFA_F_NODAD : 0;
    request.add(IFA_LOCAL, address, size);
    request.add(IFA_ADDRESS, address, size);
    return request.send(netlink);
}

/// Makes every address of the family local, with `source` as the sender.
int add_route(int netlink, int family, const void* source, std::size_t size) {
    RouteRequest request(RTM_NEWROUTE, NLM_F_CREATE | NLM_F_REPLACE);
    auto& body = request.body<rtmsg>();
    body.rtm_family = static_cast<std::uint8_t>(family);
    body.rtm_table = RT_TABLE_LOCAL;
    body.rtm_protocol = RTPROT_STATIC;
    body.rtm_scope = RT_SCOPE_HOST;
    body.rtm_type = RTN_LOCAL;
    const std::uint32_t index = loopback_index;
    request.add(RTA_OIF, &index, sizeof index);
    if (size != 0) request.add(RTA_PREFSRC, source, size);
    return request.send(netlink);
}

/// Routes exist only for families that have one outside: programs order addresses by them.
int furnish(const OuterAddresses& outer) {
    if (const int error = raise_loopback()) return error;
    const int netlink = ::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
    if (netlink < 0) return errno;
    int error = 0;
    if (outer.has_four) {
        static_cast<void>(add_address(netlink, AF_INET, outer.four, sizeof outer.four));
        error = add_route(netlink, AF_INET, outer.four, sizeof outer.four);
    }
    if (outer.has_six && error == 0) {
        // A kernel without IPv6 in this namespace refuses; then the family is as absent as it is outside.
        if (add_address(netlink, AF_INET6, outer.six, sizeof outer.six) == 0)
            static_cast<void>(add_route(netlink, AF_INET6, outer.six, sizeof outer.six));
    }
    ::close(netlink);
    return error;
}

int server(int family) {
    const int socket = ::socket(family, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (socket < 0) return -1;
    const int on = 1;
    sockaddr_storage address{};
    socklen_t length = 0;
    bool set = false;
    if (family == AF_INET) {
        auto* const four = reinterpret_cast<sockaddr_in*>(&address);
        four->sin_family = AF_INET;
        four->sin_port = htons(name_service);
        length = sizeof *four;
        set = ::setsockopt(socket, IPPROTO_IP, IP_PKTINFO, &on, sizeof on) == 0;
    } else {
        auto* const six = reinterpret_cast<sockaddr_in6*>(&address);
        six->sin6_family = AF_INET6;
        six->sin6_port = htons(name_service);
        length = sizeof *six;
        set = ::setsockopt(socket, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof on) == 0 &&
              ::setsockopt(socket, IPPROTO_IPV6, IPV6_RECVPKTINFO, &on, sizeof on) == 0;
    }
    if (set && ::bind(socket, reinterpret_cast<const sockaddr*>(&address), length) == 0) return socket;
    ::close(socket);
    return -1;
}

struct Reply {
    int error = 0;
};

void reply(int channel, int error, std::span<const int> descriptors) {
    DescriptorMessage<Reply, 3> message;
    message.content.error = error;
    message.header.msg_controllen = 0;
    message.header.msg_control = nullptr;
    if (!descriptors.empty()) {
        message.header.msg_control = message.room;
        message.attach(descriptors);
    }
    if (::sendmsg(channel, &message.header, MSG_NOSIGNAL) < 0) ::_exit(0);
}

/// 0 or an errno. The descriptors are the two servers and the socket that tells about sockets.
int move_in(const OuterAddresses& outer, int (&made)[3], std::size_t& count) {
    if (::unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0) return errno;
    if (const int error = furnish(outer)) return error;
    count = 0;
    made[count] = ::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_SOCK_DIAG);
    if (made[count] < 0) return errno;
    ++count;
    made[count] = server(AF_INET);
    if (made[count] < 0) return errno;
    ++count;
    made[count] = server(AF_INET6);
    if (made[count] >= 0) ++count;
    return 0;
}

}  // namespace

void serve_room(int channel, const OuterAddresses& outer) {
    // No copy of any other descriptor stays here, the listener's above all.
    constexpr int own = 3;
    if (channel != own && ::dup2(channel, own) < 0) ::_exit(1);
    ::syscall(SYS_close_range, own + 1, ~0U, 0);
    for (int number = 0; number < own; ++number) ::close(number);
    ::prctl(PR_SET_NAME, "callgate-room");
    sigset_t none;
    ::sigemptyset(&none);
    ::sigprocmask(SIG_SETMASK, &none, nullptr);
    ::signal(SIGINT, SIG_IGN);  // a key at the terminal is for the command
    ::signal(SIGQUIT, SIG_IGN);
    ::signal(SIGTSTP, SIG_IGN);
    ::signal(SIGHUP, SIG_IGN);
    ::signal(SIGTERM, SIG_DFL);
    int made[3] = {-1, -1, -1};
    std::size_t count = 0;
    const int error = move_in(outer, made, count);
    reply(own, error, std::span<const int>(made, error == 0 ? count : 0));
    if (error != 0) ::_exit(0);
    for (std::size_t index = 0; index < count; ++index) ::close(made[index]);
    for (;;) {
        int wanted[2];
        const ssize_t got = ::recv(own, wanted, sizeof wanted, 0);
        if (got < 0 && errno == EINTR) continue;
        if (got != sizeof wanted) ::_exit(0);  // the supervisor is gone
        const int socket = ::socket(wanted[0], wanted[1] | SOCK_CLOEXEC, 0);
        reply(own, socket < 0 ? errno : 0, std::span<const int>(&socket, socket < 0 ? 0 : 1));
        if (socket >= 0) ::close(socket);
    }
}

}  // namespace callgate::names
