// Says to the other threads that this one is about to wait.
#pragma once

#include "supervisor/calls/call.hpp"

namespace callgate::calls {

/// Lets other threads receive while it lives, if it `entered`. Otherwise too many calls are blocked already.
/// For the thread that made it.
class Announced {
public:
    explicit Announced(Blocking& blocking) : blocking_(blocking), entered_(blocking.enter()) {}
    Announced(const Announced&) = delete;
    Announced& operator=(const Announced&) = delete;
    ~Announced() {
        if (entered_) blocking_.leave();
    }
    [[nodiscard]] bool entered() const { return entered_; }

private:
    Blocking& blocking_;
    bool entered_;
};

}  // namespace callgate::calls
