// A call whose descriptor could not be taken from its caller.
#pragma once

#include "rules/model/operation.hpp"
#include "supervisor/decide/decide.hpp"

namespace callgate::calls {

/// Where an address of a call stands in its arguments; below 0: it has none.
struct AddressArguments {
    int address = -1, length = -1;
};

/// Answers a call with the error of taking its descriptor. A number that is not open is the caller's own
/// mistake; where we are not let near it (a container's profile refuses pidfd_getfd(2), the caller is not
/// dumpable), nothing can be performed on it, and that is a denial on record.
void fail_descriptor_unavailable(CallContext& context, rules::Operation operation, int error, AddressArguments where = {});

}  // namespace callgate::calls
