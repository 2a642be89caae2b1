#include "supervisor/container/container_source.hpp"

#include <linux/capability.h>
#include <linux/seccomp.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include "base/process/capabilities.hpp"
#include "supervisor/enforce/call_table.hpp"
#include "supervisor/enforce/filter_spec.hpp"
#include "supervisor/kernel/target.hpp"

namespace callgate::container {

namespace {

using enforce::call_number;
using kernel::Notification;

bool executes(const Notification& call) {
    return call.call == call_number("execve") || call.call == call_number("execveat");
}

/// Whether a capability lets it, or what it starts, trace processes that are not dumpable.
bool could_trace(pid_t thread) {
    std::ifstream status(kernel::ProcPath(thread, "status").text);
    constexpr std::string_view bounding = "CapBnd:";
    for (std::string line; std::getline(status, line);)
        if (line.starts_with(bounding))
            return (std::strtoull(line.c_str() + bounding.size(), nullptr, 16) &
                    capability(CAP_SYS_PTRACE)) != 0;
    return true;  // it is gone
}

boost::system::error_code gone() { return {ENOENT, boost::system::system_category()}; }

}  // namespace

ContainerSource::ContainerSource(std::vector<sock_filter> filter)
    : filter_(std::move(filter)), changed_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
    if (!changed_) throw std::system_error(errno, std::generic_category(), "no descriptors are left");
}

void ContainerSource::add(UniqueFd listener) {
    auto process = std::make_shared<Handed>();
    process->number = listener.get();
    process->listener.open(std::move(listener));
    const std::lock_guard lock(lock_);
    if (synchronously_) static_cast<void>(process->listener.wake_synchronously(true));
    all_.push_back(std::move(process));
    ::eventfd_write(changed_.get(), 1);
}

bool ContainerSource::forget_ended() {
    const std::lock_guard lock(lock_);
    if (std::erase_if(all_, [](const Process& one) { return one->listener.finished(); }) != 0)
        ::eventfd_write(changed_.get(), 1);
    return !all_.empty();
}

std::vector<pollfd> ContainerSource::ends() const {
    const std::lock_guard lock(lock_);
    std::vector<pollfd> entries;
    for (const Process& one : all_) entries.push_back({one->number, 0, 0});
    return entries;
}

bool ContainerSource::may_continue(const Notification& call) {
    return call.call == call_number("getsockname") || executes(call);
}

/// Whether the filter, or the runtime's part, has settled the call.
bool ContainerSource::answered(Handed& process, const Notification& call) {
    kernel::Answer answer;
    if (call.call == Notification::foreign_call) {
        answer.error = ENOSYS;
    } else if (!process.began.load() && !executes(call)) {
        answer.let_continue = true;
    } else {
        if (executes(call) && !process.began.exchange(true) && could_trace(call.thread)) traces_ = true;
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
    static_cast<void>(process.listener.answer(call.id, answer));  // a caller that is gone needs none
    return true;
}

/// With turn_ held: waits until a listener has a call. An ended one is not looked at again. The one behind
/// the last is looked at first, so that no process that calls without end keeps others waiting.
Result<ContainerSource::Process> ContainerSource::next_ready() {
    for (;;) {
        if (entries_.empty() || (entries_.back().revents & POLLIN) != 0) {
            eventfd_t count = 0;
            ::eventfd_read(changed_.get(), &count);
            const std::lock_guard lock(lock_);
            known_ = all_;
            entries_.clear();
            for (const Process& one : known_) entries_.push_back({one->number, POLLIN, 0});
            entries_.push_back({changed_.get(), POLLIN, 0});
        }
        if (::poll(entries_.data(), entries_.size(), -1) < 0) return errno_code();
        for (std::size_t step = 0; step < known_.size(); ++step) {
            const std::size_t index = (first_ + step) % known_.size();
            if ((entries_[index].revents & POLLIN) != 0) {
                first_ = index + 1;
                return known_[index];
            }
            if (entries_[index].revents != 0) entries_[index].fd = -1;
        }
    }
}

Result<Notification> ContainerSource::receive() {
    for (;;) {
        Process process;
        Notification call;
        {
            const std::lock_guard turn(turn_);
            auto ready = next_ready();
            if (!ready) return ready.error();
            process = std::move(*ready);
            auto received = process->listener.receive();
            if (!received) return received.error();
            call = *received;
        }
        if (answered(*process, call)) continue;
        {
            const std::lock_guard lock(lock_);
            if (calls_.emplace(call.id, process).second) return call;
        }
        static_cast<void>(process->listener.answer(call.id, {.error = ENOSYS}));
    }
}

ContainerSource::Process ContainerSource::of(std::uint64_t id) {
    const std::lock_guard lock(lock_);
    const auto found = calls_.find(id);
    return found == calls_.end() ? nullptr : found->second;
}

Result<void> ContainerSource::answer(std::uint64_t id, const kernel::Answer& answer) {
    const Process process = of(id);
    if (!process) return gone();
    auto sent = process->listener.answer(id, answer);
    if (!sent && sent.error().value() == EINTR) return sent;  // it is sent again
    const std::lock_guard lock(lock_);
    calls_.erase(id);
    return sent;
}

Result<int> ContainerSource::add_descriptor(std::uint64_t id, int fd, bool close_on_exec) {
    const Process process = of(id);
    if (!process) return gone();
    return process->listener.add_descriptor(id, fd, close_on_exec);
}

Result<void> ContainerSource::put_descriptor(std::uint64_t id, int fd, int number) {
    const Process process = of(id);
    if (!process) return gone();
    return process->listener.put_descriptor(id, fd, number);
}

bool ContainerSource::waiting(std::uint64_t id) {
    const Process process = of(id);
    return process && process->listener.waiting(id);
}

bool ContainerSource::finished() {
    const std::lock_guard lock(lock_);
    return std::ranges::all_of(all_, [](const Process& one) { return one->listener.finished(); });
}

bool ContainerSource::pending() {
    const std::lock_guard lock(lock_);
    return std::ranges::any_of(all_, [](const Process& one) { return one->listener.pending(); });
}

bool ContainerSource::wake_synchronously(bool on) {
    const std::lock_guard lock(lock_);
    synchronously_ = on;
    bool all = true;
    for (const Process& one : all_) all = one->listener.wake_synchronously(on) && all;
    return all;
}

}  // namespace callgate::container
