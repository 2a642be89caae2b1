#include "supervisor/approval/terminal/relay.hpp"

#include <unistd.h>

#include <array>
#include <cerrno>
#include <utility>

#include "base/write_all.hpp"

namespace callgate::approval {

namespace {

constexpr std::size_t max_held = 1 << 20, max_input = 4096;

}  // namespace

void Relay::show(std::string_view bytes) {
    if (!gone_ && !write_all(person_.descriptor(), bytes)) gone_ = true;
}

std::string Relay::read_keys() {
    std::array<char, max_input> bytes;
    const ssize_t got = ::read(person_.descriptor(), bytes.data(), bytes.size());
    if (got > 0) return {bytes.data(), static_cast<std::size_t>(got)};
    if (got == 0 || (errno != EINTR && errno != EAGAIN)) gone_ = true;
    return {};
}

void Relay::note_reports(std::string_view typed) {
    std::string rest(typed);
    while (take_position(rest)) ++answered_;
}

std::uint64_t Relay::owed_reports() const {
    const std::uint64_t asked = screen_.position_queries();
    return asked > answered_ ? asked - answered_ : 0;
}

bool Relay::takes_keys() const { return input_.size() < max_input; }

bool Relay::takes_output() const { return held_.size() < max_held; }

void Relay::write_keys() {
    if (input_.empty()) return;
    const ssize_t put = ::write(command_.master(), input_.data(), input_.size());
    if (put > 0) input_.erase(0, static_cast<std::size_t>(put));
}

void Relay::pass_output() {
    constexpr int max_rounds = 64;
    std::array<char, 65536> bytes;
    for (int round = 0; round < max_rounds; ++round) {
        const ssize_t got = ::read(command_.master(), bytes.data(), bytes.size());
        if (got <= 0) return;
        std::string_view text(bytes.data(), static_cast<std::size_t>(got));
        std::string filtered;
        if (plain_) text = filtered = plain_->filter(text);
        if (holding_) {
            held_ += text;
            if (!takes_output()) return;
        } else {
            screen_.feed(text);
            show(text);
        }
    }
}

void Relay::release() {
    holding_ = false;
    screen_.feed(held_);
    show(std::exchange(held_, {}));
}

}  // namespace callgate::approval
