// One run's socket, as those who answer use it.
//
// The other end is a supervisor of the same user, in a directory that only this user can write: what it says
// is believed as far as it can be parsed. Names and texts in it are still the target's.
#pragma once

#include <deque>
#include <string>

#include "base/unique_fd.hpp"
#include "supervisor/approval/questions/question_view.hpp"
#include "base/result.hpp"

namespace callgate::approval {

class Client {
public:
    /// Connects, and says the run's token.
    static Result<Client> open(const std::string& directory, const std::string& run);

    [[nodiscard]] int descriptor() const { return fd_.get(); }
    [[nodiscard]] const std::string& run() const { return run_; }
    /// False: the run is gone.
    bool send(std::string_view text);
    /// Takes what has come, without waiting. False: the run is gone.
    bool receive();
    /// The next whole message that was taken.
    [[nodiscard]] std::optional<FromRun> next();
    /// Waits for a message of this type; nothing where the run ends or `timeout_ms` passes before.
    [[nodiscard]] std::optional<FromRun> wait_for(std::string_view type, int timeout_ms);

private:
    Client(UniqueFd fd, std::string run) : fd_(std::move(fd)), run_(std::move(run)) {}
    UniqueFd fd_;
    std::string run_, input_;
};

}  // namespace callgate::approval
