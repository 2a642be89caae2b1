// `callgate request`: asks, from within a run, for something that the program will need.
//
// It makes the very call that the answer is about, so the rules decide it, and the person is asked by the
// usual question. That question names this process with its arguments, the reason among them. Nothing else
// is asked for: whoever runs it gets what any program of the run would get.
#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <memory>
#include <system_error>
#include <utility>
#include <variant>

#include "base/unique_fd.hpp"
#include "base/words.hpp"
#include "rules/model/address.hpp"
#include "supervisor/cli/environment.hpp"
#include "supervisor/cli/failure.hpp"
#include "supervisor/cli/in_run.hpp"
#include "supervisor/cli/verbs.hpp"
#include "supervisor/host/host.hpp"

namespace callgate::cli {

namespace {

constexpr int connect_wait_ms = 10'000;

std::string in_words(int error) { return std::generic_category().message(error); }

/// "" if it succeeds, else why not. Opens for writing make the file if there is none.
std::string open_file(const std::string& path, bool writes) {
    constexpr int quiet = O_CLOEXEC | O_NONBLOCK | O_NOCTTY;
    const UniqueFd file(::open(path.c_str(), writes ? O_WRONLY | O_CREAT | quiet : O_RDONLY | quiet, 0666));
    return file ? "" : in_words(errno);
}

std::string connect_once(const addrinfo& target) {
    const UniqueFd socket(::socket(target.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (!socket) return in_words(errno);
    if (::connect(socket.get(), target.ai_addr, target.ai_addrlen) == 0) return "";
    if (errno != EINPROGRESS) return in_words(errno);
    pollfd ready{socket.get(), POLLOUT, 0};
    if (::poll(&ready, 1, connect_wait_ms) != 1) return "no answer within 10 s";
    int error = 0;
    socklen_t size = sizeof error;
    ::getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &error, &size);
    return error == 0 ? "" : in_words(error);
}

/// Host and port of "HOST:PORT".
std::pair<std::string, std::string> parse_target(const std::string& object) {
    const Expected<rules::Destination> target = rules::parse_destination(object);
    if (!target || !target->port || target->port->first != target->port->last ||
        target->protocol == rules::Protocol::udp)
        throw Failure("request connect " + object + ": expected HOST:PORT");
    const auto* const block = std::get_if<rules::Cidr>(&target->host);
    return {block != nullptr ? rules::text(*block) : std::get<rules::HostPattern>(target->host).text,
            std::to_string(target->port->first)};
}

std::string connect_to(const std::string& object) {
    const auto [host, port] = parse_target(object);
    const addrinfo hints{.ai_flags = AI_NUMERICSERV,
                         .ai_family = AF_UNSPEC,
                         .ai_socktype = SOCK_STREAM,
                         .ai_protocol = 0,
                         .ai_addrlen = 0,
                         .ai_addr = nullptr,
                         .ai_canonname = nullptr,
                         .ai_next = nullptr};
    addrinfo* found = nullptr;
    if (const int error = ::getaddrinfo(host.c_str(), port.c_str(), &hints, &found); error != 0)
        return ::gai_strerror(error);
    const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> all(found, ::freeaddrinfo);
    std::string why;
    for (const addrinfo* one = found; one != nullptr; one = one->ai_next)
        if ((why = connect_once(*one)).empty()) break;
    return why;
}

/// Asks the kernel whether it would execute the program (AT_EXECVE_CHECK, Linux 6.14). Nothing is executed.
/// Older kernels answer EINVAL, once the call was decided and allowed.
std::string check_execution(std::vector<std::string> words) {
    constexpr int only_check = 0x10000;
    std::string why = in_words(ENOENT);
    for (const std::string& program : executable_candidates(words[0], current_environment())) {
        std::vector<char*> arguments;
        for (std::string& word : words) arguments.push_back(word.data());
        arguments.push_back(nullptr);
        if (::syscall(SYS_execveat, AT_FDCWD, program.c_str(), arguments.data(), ::environ, only_check) ==
                0 ||
            errno == EINVAL)
            return "";
        if (errno != ENOENT && errno != ENOTDIR) return in_words(errno);
    }
    return why;
}

constexpr std::size_t max_denials = std::size_t{16} << 20U;

}  // namespace

int request(const Arguments& arguments) {
    const std::string& operation = arguments.rest()[0];
    std::vector<std::string> words(arguments.rest().begin() + 1, arguments.rest().end());
    const std::string object = joined(words, " ");
    require_run("request");
    if (operation != "execute" && words.size() > 1)
        throw Failure("request " + operation + ": expected one object, not " + words[1]);
    const std::string before = list_of_denials(max_denials);
    std::string why;
    if (operation == "read" || operation == "write") {
        why = open_file(object, operation == "write");
    } else if (operation == "connect") {
        why = connect_to(object);
    } else if (operation == "execute") {
        why = check_execution(std::move(words));
    } else {
        throw Failure("request " + operation + ": expected read, write, execute or connect");
    }
    if (why.empty()) {
        print("granted: " + operation + ' ' + object + '\n');
        return 0;
    }
    print("refused: " + operation + ' ' + object + ": " + why + '\n');
    const std::string after = list_of_denials(max_denials);
    if (after.starts_with(before)) print(after.substr(before.size()));
    return exit_finding;
}

}  // namespace callgate::cli
