// The answer to a call whose descriptor could not be copied from its caller.
#pragma once

#include "rules/model/operation.hpp"
#include "supervisor/calls/call.hpp"
#include "supervisor/decide/decide.hpp"

namespace callgate::calls {

/// The indexes of a call's address among its arguments; below 0: it has none.
struct AddressArguments {
    int address = -1, length = -1;
};

/// Answers a call with the error of copying its descriptor. A number that is not open is the caller's own
/// mistake. If the kernel does not let callgate copy it, nothing can be performed on it, and that is a denial
/// on record. (A container's profile refuses pidfd_getfd(2), or the caller is not dumpable.)
void fail_descriptor_unavailable(Call& context, rules::Operation operation, int error,
                                 AddressArguments where = {});

}  // namespace callgate::calls
