#include "supervisor/jobs/http/tls.hpp"

#include <fcntl.h>
#include <limits.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <string>
#include <utility>
#include <vector>

#include "tls/protocol.hpp"

namespace callgate::jobs::http {

namespace {

Problem cannot_start(const boost::system::error_code& why) {
    return Problem{std::string("cannot start ") + tls::program_name + ": " + why.message()};
}

/// Its path: callgate's own, with the rest of the name behind it.
std::string program_path() {
    std::array<char, PATH_MAX> own;
    const ssize_t size = ::readlink(own_program, own.data(), own.size());
    return std::string(own.data(), size > 0 ? static_cast<std::size_t>(size) : 0) + "-tls";
}

/// Above every number that a child gets.
UniqueFd raised(int descriptor) { return UniqueFd(::fcntl(descriptor, F_DUPFD_CLOEXEC, first_descriptor)); }

}  // namespace

Expected<Tls> start_tls(const NamedFile& certificate, const NamedFile& key) {
    std::array<int, 2> pair{};
    if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair.data()) != 0)
        return cannot_start(errno_code());
    UniqueFd low(pair[0]), low_theirs(pair[1]);
    UniqueFd ours = raised(low.get()), theirs = raised(low_theirs.get());
    const UniqueFd certificates = raised(certificate.file.get()), keys = raised(key.file.get());
    if (!ours || !theirs || !certificates || !keys) return cannot_start(errno_code());
    const std::string path = program_path();
    auto child = spawn(path.c_str(), {tls::program_name}, {},
                       std::vector<std::pair<int, int>>{{theirs.get(), tls::control_descriptor},
                                                        {certificates.get(), tls::certificate_descriptor},
                                                        {keys.get(), tls::key_descriptor}},
                       SignalState::current());
    if (!child && child.error() == boost::system::errc::no_such_file_or_directory)
        return Problem{
            certificate.name + ": " + path +
            " is not there; the tar archive, the deb and the image of callgate bring it, and a build "
            "where libssl-dev is installed makes it"};
    if (!child) return cannot_start(child.error());
    theirs.reset();
    low_theirs.reset();
    std::array<char, tls::max_report> report{};
    ssize_t size = -1;
    while ((size = ::recv(ours.get(), report.data(), report.size(), 0)) < 0 && errno == EINTR) {
    }
    if (size == 1 && report[0] == tls::ready) return Tls{std::move(*child), std::move(ours)};
    reap(child->pid);
    if (size <= 0)
        return Problem{path +
                       " ended before it was ready; install the callgate and callgate-tls of one version"};
    return Problem{(report[0] == tls::of_key ? key.name : certificate.name) + ": " +
                   std::string(&report[1], static_cast<std::size_t>(size) - 1)};
}

Expected<void> give_listener(const Tls& tls, const UniqueFd& listener) {
    if (!tls::send_descriptor(tls.control.get(), listener.get())) return cannot_start(errno_code());
    return {};
}

}  // namespace callgate::jobs::http
