// The process behind a query, as it was when it made its socket or connected it.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

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

/// The askers that the same rules judge: of the run itself or of one nested run, and of one party. It keeps
/// no nested run.
class AskersJudgedAlike {
public:
    explicit AskersJudgedAlike(const Asker& one)
        : judges_(one.judges), nested_(one.judges != nullptr), party_(one.party) {}

    [[nodiscard]] bool hold(const Asker& one) const {
        return !judges_.owner_before(one.judges) && !one.judges.owner_before(judges_) && party_ == one.party;
    }
    /// The nested run that they are of has ended.
    [[nodiscard]] bool over() const { return nested_ && judges_.expired(); }
    /// The process as one of them.
    [[nodiscard]] Asker with(Asker process) const {
        process.judges = judges_.lock();
        process.over = nested_ && process.judges == nullptr;
        process.party = party_;
        return process;
    }

private:
    std::weak_ptr<const calls::DecideNeeds> judges_;
    bool nested_;
    std::optional<rules::Party> party_;
};

}  // namespace callgate::names
