#include "supervisor/jobs/zygote.hpp"

#include <fcntl.h>
#include <sys/socket.h>

#include <array>
#include <utility>

#include "supervisor/jobs/job_message.hpp"

namespace callgate::jobs {

std::optional<SocketPair> make_sockets() {
    int ends[2];
    if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) return std::nullopt;
    const UniqueFd low[2] = {UniqueFd(ends[0]), UniqueFd(ends[1])};
    SocketPair made{UniqueFd(::fcntl(low[0].get(), F_DUPFD_CLOEXEC, first_descriptor)),
                    UniqueFd(::fcntl(low[1].get(), F_DUPFD_CLOEXEC, first_descriptor))};
    if (!made.ours || !made.theirs) return std::nullopt;
    return made;
}

std::shared_ptr<Zygote> Zygote::start(const std::vector<std::string>& frame,
                                      const std::vector<std::string>& environment,
                                      const SignalState& signals) {
    Inherited inherited = Inherited::current();  // before it inherits anything
    auto sockets = make_sockets();
    if (!sockets) return nullptr;
    const std::array descriptors{std::pair(sockets->theirs.get(), job_descriptor)};
    auto child = spawn(own_program, own_words(ahead_word, frame), environment, descriptors, signals);
    if (!child) return nullptr;
    return std::shared_ptr<Zygote>(
        new Zygote(std::move(inherited), std::move(*child), std::move(sockets->ours)));
}

std::optional<RunProcess> Zygote::ask(const Connections& connections) {
    return ask_for_run(socket_.get(), connections);
}

Child Zygote::dismiss() {
    socket_.reset();
    return std::move(child_);
}

}  // namespace callgate::jobs
