#include "supervisor/kernel/pending_call.hpp"

namespace callgate::kernel {

PendingCall::~PendingCall() {
    if (source_ != nullptr) fail(EPERM);
}

bool PendingCall::send(const Answer& answer) {
    NotificationSource* source = std::exchange(source_, nullptr);
    if (source == nullptr) return false;
    // The ioctl can be interrupted only before the kernel took the answer, so a repetition cannot answer
    // twice.
    for (;;) {
        const auto sent = source->answer(notification_.id, answer);
        if (sent) return true;
        if (sent.error().value() != EINTR) return false;
    }
}

bool PendingCall::hand_over(UniqueFd fd, bool close_on_exec, int& error) {
    error = 0;
    if (source_ == nullptr) return false;
    auto number = source_->add_descriptor(notification_.id, fd.get(), close_on_exec);
    while (!number && number.error().value() == EINTR) {
        number = source_->add_descriptor(notification_.id, fd.get(), close_on_exec);
    }
    fd.reset();
    if (number) return succeed(*number);
    error = number.error().value();
    return fail(error);
}

}  // namespace callgate::kernel
