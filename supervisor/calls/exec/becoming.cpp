#include "supervisor/calls/exec/becoming.hpp"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdlib>

#include "base/directory.hpp"
#include "base/test_switch.hpp"
#include "supervisor/calls/arguments.hpp"
#include "supervisor/decide/observe.hpp"
#include "supervisor/kernel/acting_identity.hpp"
#include "supervisor/kernel/memory_places.hpp"
#include "supervisor/kernel/target.hpp"

namespace callgate::calls {

namespace {

using rules::Operation;
using rules::Party;

rules::Action action_for(const rules::RuleSet& rules, Party party, Operation operation,
                         const rules::Object& object) {
    return rules.evaluate({operation, object, {}, {}, party}).action;
}

/// By the user's rules, also in audit mode.
bool tools_may_write(ExecCall& context, const Object& file) {
    if (file.unlinked || file.unnamed) return true;
    const Observation* const observed = context.needs.observation;
    const rules::RuleSet& rules =
        observed != nullptr ? observed->basis().rules : context.needs.enforced.rules;
    const auto writable = [&](Operation operation) {
        return action_for(rules, Party::tools, operation, rules::FileObject{file.path}) ==
               rules::Action::allow;
    };
    return (writable(Operation::modify) || writable(Operation::create) || writable(Operation::remove)) &&
           check_enabled("party-program-writable");
}

/// Whether the agent may do it, and a tool may not.
bool agents_alone(ExecCall& context, Operation operation, const rules::Object& object) {
    const rules::RuleSet& rules = context.needs.enforced.rules;
    return action_for(rules, Party::agent, operation, object) == rules::Action::allow &&
           action_for(rules, Party::tools, operation, object) != rules::Action::allow;
}

/// An internet socket, or one that is connected to a name that is closed to tools.
bool is_agents_socket(ExecCall& context, int number) {
    const auto copy = kernel::descriptor_copy(context.thread(), number);
    if (!copy) return true;  // closed on failure
    int domain = 0;
    socklen_t length = sizeof domain;
    if (::getsockopt(copy->get(), SOL_SOCKET, SO_DOMAIN, &domain, &length) != 0) return true;
    if (domain != AF_UNIX) return domain == AF_INET || domain == AF_INET6;
    sockaddr_un peer{};
    length = sizeof peer;
    if (::getpeername(copy->get(), reinterpret_cast<sockaddr*>(&peer), &length) != 0) return false;
    constexpr std::size_t head = offsetof(sockaddr_un, sun_path);
    if (length <= head) return false;
    std::string name(peer.sun_path, std::min<std::size_t>(length - head, sizeof peer.sun_path));
    if (name.front() == 0) {
        name.front() = '@';
    } else {
        name.resize(name.find_last_not_of('\0') + 1);
    }
    return agents_alone(context, Operation::connect, rules::UnixObject{name});
}

/// Whether a tool may not have the descriptor.
bool is_agents(ExecCall& context, int number, int flags) {
    auto pin = kernel::descriptor_pin(context.thread(), number);
    if (!pin) return false;  // closed meanwhile
    const auto object = describe(std::move(*pin));
    if (!object) return false;
    if (S_ISSOCK(object->status.st_mode) && object->unnamed)
        return number > STDERR_FILENO && is_agents_socket(context, number);
    if (object->unnamed || object->unlinked || (flags & O_PATH) != 0) return false;
    const int access = flags & O_ACCMODE;
    return (access != O_WRONLY && agents_alone(context, Operation::read, rules::FileObject{object->path})) ||
           (access != O_RDONLY && agents_alone(context, Operation::modify, rules::FileObject{object->path}));
}

}  // namespace

bool runs_agent(ExecCall& context) {
    struct stat status {};
    const kernel::ReadingCaller reading;
    const Parties& parties = *context.needs.parties;
    return ::stat(kernel::ProcPath(context.thread(), "exe").text, &status) == 0 &&
           parties.is_image(identity_of(status)) &&
           parties.is_memory(kernel::memory_places(context.thread()));
}

Parties::Stage stage_after(ExecCall& context, std::span<const Object* const> files) {
    using Stage = Parties::Stage;
    const Parties& parties = *context.needs.parties;
    const Stage now = parties.stage_of(context.thread());
    if (now != Stage::waiting && now != Stage::by_env) return Stage::tools;
    if (now == Stage::waiting && !parties.is_own(identity_of(files.front()->status))) return Stage::tools;
    if (std::ranges::any_of(files, [&](const Object* file) { return tools_may_write(context, *file); }))
        return Stage::tools;
    const bool env = now == Stage::waiting && files.size() == 2 && files.back()->path.ends_with("/env");
    return env ? Stage::by_env : Stage::agent;
}

void leave(ExecCall& context) {
    if (context.needs.parties->stage_of(context.thread()) != Parties::Stage::tools &&
        check_enabled("party-switch"))
        context.needs.parties->leave();
}

std::optional<std::string> agents_descriptor(ExecCall& context) {
    if (!check_enabled("party-descriptors")) return std::nullopt;
    const kernel::ReadingCaller reading;
    const Directory entries(::opendir(kernel::ProcPath(context.thread(), "fd").text));
    if (!entries) return "the descriptors of the caller cannot be read";
    while (const dirent* entry = ::readdir(entries.get())) {
        if (entry->d_name[0] == '.') continue;
        const int number = std::atoi(entry->d_name);
        const auto flags = kernel::descriptor_flags(context.thread(), number);
        if (!flags || (*flags & O_CLOEXEC) != 0) continue;
        if (is_agents(context, number, *flags))
            return "the agent's descriptor " + std::string(entry->d_name) +
                   " would stay open in a tool, which may not use it";
    }
    return std::nullopt;
}

}  // namespace callgate::calls
