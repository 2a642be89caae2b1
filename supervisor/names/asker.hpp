// The process behind a query, as it was when it made its socket or connected it.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "rules/model/request.hpp"

namespace callgate::calls {
struct DecideNeeds;
}

namespace callgate::names {

struct Asker {
    pid_t process = 0, parent = 0;
    std::uint64_t start_time = 0;
    std::string program;
    std::optional<rules::Party> party{};  // where the rules know parties
    /// The judges of a nested run that it is of; null: those of the run.
    std::shared_ptr<const calls::DecideNeeds> judges{};
    bool over = false;  // the nested run that it was of: nothing is looked up for it
};

/// An asker whose query is still to come. It keeps no nested run.
class ExpectedAsker {
public:
    ExpectedAsker() = default;
    explicit ExpectedAsker(Asker asker) : asker_(std::move(asker)), judges_(asker_.judges) {
        asker_.over = std::exchange(asker_.judges, nullptr) != nullptr;
    }
    [[nodiscard]] Asker now() const {
        Asker asker = asker_;
        asker.judges = judges_.lock();
        if (asker.judges != nullptr) asker.over = false;
        return asker;
    }

private:
    Asker asker_;
    std::weak_ptr<const calls::DecideNeeds> judges_;
};

}  // namespace callgate::names
