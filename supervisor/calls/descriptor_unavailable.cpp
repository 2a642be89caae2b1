#include "supervisor/calls/descriptor_unavailable.hpp"

#include <sys/socket.h>

#include <cerrno>

#include "agent/handover.hpp"
#include "supervisor/calls/socket_address.hpp"

namespace callgate::calls {

namespace {

/// The object as a stream socket would understand the address: the socket's own kind is not known.
rules::Object object_of(Call& context, AddressArguments where) {
    if (where.address < 0) return rules::FileObject{};
    const auto address =
        read_address(context.thread(), context.word(where.address), context.integer(where.length));
    if (!address) return rules::FileObject{};
    const SocketKind kind{address->family(), SOCK_STREAM};
    if (kind.internet()) {
        if (const auto endpoint = endpoint_of(*address, kind, Role::destination)) return *endpoint;
    }
    if (const auto name = kind.domain == AF_UNIX ? unix_name(*address) : std::nullopt) {
        context.buffers.path = (name->abstract ? "@" : "") + name->name;
        return rules::UnixObject{context.buffers.path, rules::UnixType::stream};
    }
    return rules::FileObject{};
}

/// The kernel says EACCES of a caller that is not dumpable.
std::string_view reason(int error) {
    return error != EACCES && agent::pidfd_getfd_refused()
               ? "this socket was not made in the run, or it is accepted or connected: callgate has no copy, "
                 "as the seccomp profile of this container refuses pidfd_getfd; start the container with "
                 "--cap-add SYS_PTRACE"
               : "the caller's descriptors cannot be taken (it is not dumpable, or a thread whose "
                 "descriptors this kernel or container does not tell apart: see callgate doctor)";
}

}  // namespace

void fail_descriptor_unavailable(Call& context, rules::Operation operation, int error,
                                 AddressArguments where) {
    if (error != EPERM && error != ENOSYS && error != EACCES) return context.fail(error);
    Subject subject;
    subject.operations = operation;
    subject.object = object_of(context, where);
    if (!context.call.waiting()) return;
    deny_failure(context, subject, EPERM, reason(error));
}

}  // namespace callgate::calls
