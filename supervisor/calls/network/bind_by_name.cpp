#include "supervisor/calls/network/bind_by_name.hpp"

#include <fcntl.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <linux/unix_diag.h>
#include <pthread.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <array>
#include <cstdio>
#include <cstring>
#include <memory>
#include <optional>

#include "agent/landlock.hpp"
#include "base/test_switch.hpp"
#include "base/unique_fd.hpp"
#include "supervisor/kernel/target.hpp"

namespace callgate::calls {

namespace {

/// An inode as the kernel numbers it, which stat(2) does not show on every file system.
struct KernelInode {
    std::uint32_t number = 0, device = 0;
    bool operator==(const KernelInode&) const = default;
};

/// The answer of sock_diag about a socket.
struct Diagnosis {
    std::optional<KernelInode> bound;  // to a name in a file system
};

/// Asks the kernel about one unix socket. Nothing if it does not tell.
std::optional<Diagnosis> diagnose(int socket) {
    struct stat status {};
    std::uint64_t cookie = 0;
    const UniqueFd diag(::socket(AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC, NETLINK_SOCK_DIAG));
    if (!diag || ::fstat(socket, &status) != 0 || !socket_option(socket, SOL_SOCKET, SO_COOKIE, cookie))
        return std::nullopt;
    struct {
        nlmsghdr header;
        unix_diag_req request;
    } asked{};
    asked.header.nlmsg_len = sizeof asked;
    asked.header.nlmsg_type = SOCK_DIAG_BY_FAMILY;
    asked.header.nlmsg_flags = NLM_F_REQUEST;
    asked.request.sdiag_family = AF_UNIX;
    asked.request.udiag_states = ~0U;
    asked.request.udiag_ino = static_cast<std::uint32_t>(status.st_ino);
    asked.request.udiag_show = UDIAG_SHOW_VFS;
    asked.request.udiag_cookie[0] = static_cast<std::uint32_t>(cookie);
    asked.request.udiag_cookie[1] = static_cast<std::uint32_t>(cookie >> 32U);
    if (::send(diag.get(), &asked, sizeof asked, 0) != static_cast<ssize_t>(sizeof asked))
        return std::nullopt;
    alignas(nlmsghdr) std::array<char, 4096> answer{};
    const ssize_t got = ::recv(diag.get(), answer.data(), answer.size(), 0);
    auto left = static_cast<unsigned>(got < 0 ? 0 : got);
    const auto* const header = reinterpret_cast<const nlmsghdr*>(answer.data());
    if (!NLMSG_OK(header, left) || header->nlmsg_type != SOCK_DIAG_BY_FAMILY ||
        header->nlmsg_len < NLMSG_LENGTH(sizeof(unix_diag_msg)))
        return std::nullopt;
    Diagnosis found;
    const std::size_t end = header->nlmsg_len;
    for (std::size_t at = NLMSG_SPACE(sizeof(unix_diag_msg)); at + sizeof(nlattr) <= end;) {
        nlattr attribute{};
        std::memcpy(&attribute, answer.data() + at, sizeof attribute);
        if (attribute.nla_len < sizeof attribute || at + attribute.nla_len > end) return std::nullopt;
        unix_diag_vfs name{};
        if (attribute.nla_type == UNIX_DIAG_VFS && attribute.nla_len >= NLA_HDRLEN + sizeof name) {
            std::memcpy(&name, answer.data() + at + NLA_HDRLEN, sizeof name);
            found.bound = KernelInode{name.udiag_vfs_ino, name.udiag_vfs_dev};
        }
        at += NLA_ALIGN(attribute.nla_len);
    }
    return found;
}

std::uint32_t kernel_device(unsigned major, unsigned minor) { return major << 20U | minor; }

using Lines = std::unique_ptr<std::FILE, int (*)(std::FILE*)>;

/// A file of this process in procfs. This thread's working directory is the caller's now, so no relative name
/// leads there: a container's supervisor has no other (kernel/target.hpp, proc_root).
Lines own_file(const std::string& name) {
    UniqueFd file(::openat(kernel::own_descriptors(), ("../" + name).c_str(), O_RDONLY | O_CLOEXEC));
    Lines lines(file ? ::fdopen(file.get(), "re") : nullptr, &std::fclose);
    if (lines) static_cast<void>(file.release());
    return lines;
}

/// The number that the kernel gives the device of a mount; nothing if it is not found.
std::optional<std::uint32_t> device_of_mount(int mount) {
    const Lines lines = own_file("mountinfo");
    std::array<char, 8192> line{};
    while (lines && std::fgets(line.data(), line.size(), lines.get()) != nullptr) {
        int number = 0;
        unsigned major = 0, minor = 0;
        if (std::sscanf(line.data(), "%d %*d %u:%u ", &number, &major, &minor) == 3 && number == mount)
            return kernel_device(major, minor);
    }
    return std::nullopt;
}

/// The inode of the socket at a place, by a pin on it. stat(2) may show other numbers (overlayfs, btrfs).
std::optional<KernelInode> socket_at(const Place& place) {
    const UniqueFd pin(::openat(place.parent.get(), place.leaf.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC));
    struct stat status {};
    if (!pin || ::fstat(pin.get(), &status) != 0 || !S_ISSOCK(status.st_mode)) return std::nullopt;
    const Lines lines = own_file("fdinfo/" + std::to_string(pin.get()));
    std::array<char, 256> line{};
    unsigned long long inode = 0;
    int mount = -1;
    while (lines && std::fgets(line.data(), line.size(), lines.get()) != nullptr) {
        std::sscanf(line.data(), "mnt_id: %d", &mount);
        std::sscanf(line.data(), "ino: %llu", &inode);
    }
    const auto device = device_of_mount(mount);
    if (!device || inode == 0) return std::nullopt;
    return KernelInode{static_cast<std::uint32_t>(inode), *device};
}

struct BindTask {
    int socket, directory;
    const SocketAddress& address;
    int error = 0;
};

void* confined_bind(void* argument) {
    auto& task = *static_cast<BindTask*>(argument);
    if (check_enabled("bind-domain")) {
        if (const auto confined = agent::confine_new_sockets(task.directory); !confined) {
            task.error = confined.error().value();
            return nullptr;
        }
    }
    if (::bind(task.socket, task.address.get(), task.address.length) != 0) task.error = errno;
    return nullptr;
}

}  // namespace

BoundByName bind_by_name(int socket, const SocketAddress& address, const Place& place) {
    const auto before = diagnose(socket);
    if (!before || before->bound) return BoundByName::not_bound;
    BindTask task{socket, place.parent.get(), address};
    pthread_t thread{};
    // It shares this thread's working directory and umask, and has its signal mask and credentials.
    if (::pthread_create(&thread, nullptr, confined_bind, &task) != 0) return BoundByName::not_bound;
    ::pthread_join(thread, nullptr);
    if (task.error != 0) return BoundByName::not_bound;
    if (!check_enabled("bound-there")) return BoundByName::there;
    const auto after = diagnose(socket);
    const auto there = socket_at(place);
    if (after && after->bound && there && *after->bound == *there) return BoundByName::there;
    ::shutdown(socket, SHUT_RDWR);
    return BoundByName::elsewhere;
}

}  // namespace callgate::calls
