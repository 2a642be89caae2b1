#include "supervisor/container/container_source.hpp"

#include <linux/seccomp.h>

#include <utility>

#include "supervisor/enforce/call_table.hpp"

namespace callgate::container {

namespace {

using enforce::call_number;
using kernel::Notification;

bool executes(const Notification& call) {
    return call.call == call_number("execve") || call.call == call_number("execveat");
}

}  // namespace

ContainerSource::ContainerSource(UniqueFd listener, std::vector<sock_filter> filter)
    : filter_(std::move(filter)) {
    listener_.open(std::move(listener));
}

bool ContainerSource::may_continue(const Notification& call) {
    return call.call == call_number("getsockname") || executes(call);
}

/// Whether the filter, or the runtime's part, has settled the call.
bool ContainerSource::answered(const Notification& call) {
    kernel::Answer answer;
    if (call.call == Notification::foreign_call) {
        answer.error = ENOSYS;
    } else if (!began_.load() && !executes(call)) {
        answer.let_continue = true;
    } else {
        if (executes(call)) began_.store(true);
        std::uint64_t arguments[6];
        for (std::size_t index = 0; index < 6; ++index) arguments[index] = call.arguments[index];
        const std::uint32_t then =
            enforce::simulate(filter_, enforce::audit_architecture, call.call, arguments);
        switch (then & SECCOMP_RET_ACTION_FULL) {
            case SECCOMP_RET_USER_NOTIF:
                return false;
            case SECCOMP_RET_ALLOW:
                answer.let_continue = true;
                break;
            case SECCOMP_RET_ERRNO:
                answer.error = static_cast<int>(then & SECCOMP_RET_DATA);
                break;
            default:
                answer.error = EPERM;
        }
    }
    static_cast<void>(listener_.answer(call.id, answer));  // a caller that is gone needs none
    return true;
}

Result<Notification> ContainerSource::receive() {
    for (;;) {
        auto call = listener_.receive();
        if (!call || !answered(*call)) return call;
    }
}

}  // namespace callgate::container
