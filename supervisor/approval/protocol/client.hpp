// The client's side of one run's socket.
//
// The other end is a supervisor of the same user, because only this user can write the directory. Its
// messages are believed as far as they can be parsed. The target chooses names and texts in them.
#pragma once

#include <deque>
#include <string>

#include "base/result.hpp"
#include "base/unique_fd.hpp"
#include "supervisor/approval/questions/question_view.hpp"

namespace callgate::approval {

class Client {
public:
    /// Connects, and sends the run's token.
    static Result<Client> open(const std::string& directory, const std::string& run);

    [[nodiscard]] int descriptor() const { return fd_.get(); }
    [[nodiscard]] const std::string& run() const { return run_; }
    /// False: the run is gone.
    bool send(std::string_view text);
    /// Reads what has come, without waiting. False: the run is gone.
    bool receive();
    /// The next whole message that was read.
    [[nodiscard]] std::optional<FromRun> next();
    /// Waits for a message of this type. Nothing if the run ends or `timeout_ms` passes before it comes.
    [[nodiscard]] std::optional<FromRun> wait_for(std::string_view type, int timeout_ms);

private:
    Client(UniqueFd fd, std::string run) : fd_(std::move(fd)), run_(std::move(run)) {}
    UniqueFd fd_;
    std::string run_, input_;
};

}  // namespace callgate::approval
