#include "supervisor/decide/parties.hpp"

#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/test_switch.hpp"
#include "supervisor/decide/context.hpp"
#include "supervisor/kernel/target.hpp"

namespace callgate::calls {

Parties::Parties(pid_t process, std::optional<audit::FileIdentity> program,
                 std::vector<std::string> variables)
    : process_(process),
      handle_(static_cast<int>(::syscall(SYS_pidfd_open, process, 0U))),
      program_(program),
      variables_(std::move(variables)),
      stage_(handle_ && program_ ? Stage::waiting : Stage::tools) {}

Parties::Stage Parties::stage_of(pid_t thread) const {
    const Stage stage = stage_.load();
    if (stage == Stage::tools) return stage;
    const auto found = kernel::status(thread);
    if (!found || (found->process != process_ && check_enabled("party-of-process"))) return Stage::tools;
    // Asked last: while its process exists, the number was no other's.
    pollfd ended{handle_.get(), POLLIN, 0};
    return ::poll(&ended, 1, 0) == 0 ? stage : Stage::tools;
}

bool Parties::is_own(const audit::FileIdentity& file) const {
    return program_ && program_->inode == file.inode && program_->device == file.device;
}

bool Parties::is_image(const audit::FileIdentity& file) const {
    return file.inode != 0 && inode_.load() == file.inode && device_.load() == file.device;
}

bool Parties::is_memory(const std::optional<kernel::MemoryPlaces>& places) const {
    const std::lock_guard guard(lock_);
    return !places || !places_ || *places == *places_;
}

void Parties::go_on(Stage next, const audit::FileIdentity& image,
                    const std::optional<kernel::MemoryPlaces>& places) {
    {
        const std::lock_guard guard(lock_);
        places_ = places;
    }
    device_.store(image.device);
    inode_.store(image.inode);
    Stage now = stage_.load();
    while (now != Stage::tools && !stage_.compare_exchange_weak(now, next)) {
    }
}

rules::Party party_of(CallContext& context) {
    if (context.needs.parties == nullptr) return rules::Party::tools;
    if (!context.caller.party) {
        const bool agent = context.needs.parties->is_agent(context.thread());
        // The thread's number may have been given anew while its call is handled.
        context.caller.party = agent && context.call.waiting() ? rules::Party::agent : rules::Party::tools;
    }
    return *context.caller.party;
}

}  // namespace callgate::calls
