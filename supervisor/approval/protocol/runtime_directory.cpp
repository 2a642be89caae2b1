#include "supervisor/approval/protocol/runtime_directory.hpp"

#include <fcntl.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <string_view>

#include "base/directory.hpp"

namespace callgate::approval {

namespace {

using boost::system::result;

boost::system::error_code error_now(int error = errno) { return {error, boost::system::system_category()}; }

constexpr std::string_view socket_suffix = ".sock";
constexpr const char* approvers = "approvers";

std::string path_of(const std::string& directory, const std::string& run, std::string_view suffix) {
    return directory + '/' + run + std::string(suffix);
}

/// Goes by our own descriptor of the directory, as the whole path may be longer than a socket's name can be.
struct Address {
    sockaddr_un name{};
    socklen_t length = 0;
};
result<Address> address_of(int directory, const std::string& name) {
    Address address;
    const std::string path = "/proc/self/fd/" + std::to_string(directory) + '/' + name;
    if (path.size() >= sizeof address.name.sun_path) return error_now(ENAMETOOLONG);
    address.name.sun_family = AF_UNIX;
    std::memcpy(address.name.sun_path, path.data(), path.size());
    address.length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + path.size() + 1);
    return address;
}

/// Opens a directory, and checks that it is this user's and that no other user can write to it.
result<UniqueFd> open_private(const std::string& directory) {
    UniqueFd fd(::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (!fd) return error_now();
    struct stat status {};
    if (::fstat(fd.get(), &status) != 0) return error_now();
    if (status.st_uid != ::geteuid() || (status.st_mode & 077) != 0) return error_now(EPERM);
    return fd;
}

result<std::string> make_token(int directory, const std::string& run) {
    std::array<unsigned char, 16> bytes{};
    if (::getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size())) return error_now();
    constexpr std::string_view digits = "0123456789abcdef";
    std::string token;
    for (const unsigned char byte : bytes) {
        token += digits[byte >> 4U];
        token += digits[byte & 15U];
    }
    const UniqueFd file(::openat(directory, (run + ".token").c_str(),
                                 O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
    if (!file) return error_now();
    if (::write(file.get(), token.data(), token.size()) != static_cast<ssize_t>(token.size()))
        return error_now(EIO);
    return token;
}

}  // namespace

result<void> make_runtime_directory(const std::string& directory) {
    if (directory.empty()) return error_now(ENOENT);
    if (::mkdir(directory.c_str(), 0700) != 0 && errno != EEXIST) return error_now();
    const auto opened = open_private(directory);
    if (!opened) return opened.error();
    return {};
}

result<RunSocket> open_run_socket(const std::string& directory, const std::string& run) {
    const auto place = open_private(directory);
    if (!place) return place.error();
    // It gets its name once it listens: a client that finds it and is refused removes it.
    const std::string name = run + std::string(socket_suffix);
    const std::string early = '.' + name;
    const auto address = address_of(place->get(), early);
    if (!address) return address.error();
    RunSocket point;
    point.listening.reset(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (!point.listening) return error_now();
    // The token comes first: a client that finds the socket reads it.
    auto token = make_token(place->get(), run);
    if (!token) return token.error();
    point.token = std::move(*token);
    constexpr int backlog = 16;
    if (::bind(point.listening.get(), reinterpret_cast<const sockaddr*>(&address->name), address->length) !=
            0 ||
        ::listen(point.listening.get(), backlog) != 0 ||
        ::renameat(place->get(), early.c_str(), place->get(), name.c_str()) != 0) {
        const int error = errno;
        remove_run_socket(directory, run);
        return error_now(error);
    }
    return point;
}

void remove_run_socket(const std::string& directory, const std::string& run) {
    for (const std::string& path : run_socket_files(directory, run)) ::unlink(path.c_str());
}

std::vector<std::string> run_socket_files(const std::string& directory, const std::string& run) {
    return {path_of(directory, '.' + run, socket_suffix), path_of(directory, run, socket_suffix),
            path_of(directory, run, ".token")};
}

std::vector<std::string> runs_at(const std::string& directory) {
    std::vector<std::string> runs;
    auto place = open_private(directory);
    if (!place) return runs;
    const Directory entries(::fdopendir(place->get()));
    if (!entries) return runs;
    static_cast<void>(place->release());  // `entries` owns it
    while (const dirent* const entry = ::readdir(entries.get())) {
        const std::string_view name = entry->d_name;
        if (name.ends_with(socket_suffix) && !name.starts_with('.'))
            runs.emplace_back(name.substr(0, name.size() - socket_suffix.size()));
    }
    std::ranges::sort(runs);
    return runs;
}

result<UniqueFd> connect_to(const std::string& directory, const std::string& run) {
    const auto place = open_private(directory);
    if (!place) return place.error();
    const auto address = address_of(place->get(), run + std::string(socket_suffix));
    if (!address) return address.error();
    // A run that is stopped accepts nobody. Once its queue is full, a connect that blocks would never end.
    UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (!fd) return error_now();
    if (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address->name), address->length) != 0) {
        const int error = errno;
        if (error == ECONNREFUSED) remove_run_socket(directory, run);  // its supervisor was killed
        return error_now(error);
    }
    if (::fcntl(fd.get(), F_SETFL, 0) != 0) return error_now();
    return fd;
}

namespace {

struct flock whole_file(short kind) {
    struct flock lock {};
    lock.l_type = kind;
    lock.l_whence = SEEK_SET;
    return lock;
}

}  // namespace

result<UniqueFd> announce_approver(const std::string& directory) {
    const auto place = open_private(directory);
    if (!place) return place.error();
    UniqueFd file(::openat(place->get(), approvers, O_RDONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600));
    struct flock presence = whole_file(F_RDLCK);
    if (!file || ::fcntl(file.get(), F_OFD_SETLK, &presence) != 0) return error_now();
    return file;
}

bool approver_waits(const std::string& directory) {
    const auto place = open_private(directory);
    if (!place) return false;
    const UniqueFd file(::openat(place->get(), approvers, O_RDONLY | O_NOFOLLOW | O_CLOEXEC));
    // It only looks: a lock that it took would look like an approver to another run, and keep one out.
    struct flock presence = whole_file(F_WRLCK);
    return file && ::fcntl(file.get(), F_OFD_GETLK, &presence) == 0 && presence.l_type != F_UNLCK;
}

result<std::string> read_token(const std::string& directory, const std::string& run) {
    const auto place = open_private(directory);
    if (!place) return place.error();
    const UniqueFd file(::openat(place->get(), (run + ".token").c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC));
    if (!file) return error_now();
    std::array<char, 64> text{};
    const ssize_t got = ::read(file.get(), text.data(), text.size());
    if (got < 0) return error_now();
    return std::string(text.data(), static_cast<std::size_t>(got));
}

}  // namespace callgate::approval
