// Receives each decision of a run once it is on record: counters, the footer, the report.
#pragma once

#include "supervisor/audit/write/record.hpp"

namespace callgate::calls {

class DecisionSink {
public:
    virtual ~DecisionSink() = default;
    /// Any thread. The views in `decision` end with the call.
    virtual void note(const audit::Decision& decision) = 0;
};

}  // namespace callgate::calls
