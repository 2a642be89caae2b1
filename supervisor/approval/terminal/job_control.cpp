#include "supervisor/approval/terminal/job_control.hpp"

#include <sys/eventfd.h>

#include <utility>

namespace callgate::approval {

JobControl::JobControl(PersonTerminal& person, CommandTerminal& command)
    : person_(person), command_(command), had_keys_(person.foreground() && !person.in_pipe()) {}

void JobControl::start(int wake) {
    wake_ = wake;
    requested_ = had_keys_ ? Mode::keys : Mode::watch;
}

void JobControl::request(Mode mode) {
    if (wake_ < 0) return;
    std::unique_lock lock(mutex_);
    requested_ = mode;
    ::eventfd_write(wake_, 1);
    followed_.wait(lock, [this] { return !requested_; });
}

bool JobControl::take() {
    if (!person_.foreground()) return false;
    had_keys_ = true;
    command_.follow_size();
    request(Mode::keys);
    return true;
}

bool JobControl::resume(bool wanted) {
    command_.follow_size();
    if ((wanted || had_keys_) && take()) return true;
    request(Mode::watch);
    return false;
}

std::optional<JobControl::Mode> JobControl::requested() {
    const std::lock_guard lock(mutex_);
    return requested_;
}

void JobControl::follow(Mode mode) {
    mode_ = mode;
    regained_ = false;
    if (mode == Mode::keys) {
        person_.take();
        command_.follow_modes();
    } else {
        person_.give_back();
    }
    const std::lock_guard lock(mutex_);
    requested_.reset();
    followed_.notify_all();
}

bool JobControl::regained() {
    if (regained_ || !in_background() || !person_.foreground()) return false;
    return regained_ = true;
}

}  // namespace callgate::approval
