// The message of a container's runtime to the agent: the state of a process, and the listener of its filter
// (OCI runtime specification, "containerProcessState").
//
// The sender is the agent's own user or root: anybody else is refused before a byte is read. It can still be
// wrong, so every byte is checked. Only numbers and plain names are taken from it.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <string>

#include "base/expected.hpp"
#include "base/unique_fd.hpp"

namespace callgate::container {

struct ProcessState {
    std::string id;        // the container's, for people
    std::string rules;     // the name in the annotation callgate.rules; "": there is none
    std::string metadata;  // listenerMetadata of the profile
    pid_t process = 0;     // has the filter; 0: the runtime did not say, as crun of an added one
    pid_t first = 0;       // the container's first process; 0: the same
    UniqueFd listener;

    /// Whether the container runs already, and the process was added to it.
    [[nodiscard]] bool added() const { return process == 0 || process != first; }
};

/// Whether the other end of the connection may hand a container over.
[[nodiscard]] bool is_trusted_peer(int connection);

/// Reads one message. The sender has until `patience` is over.
[[nodiscard]] Expected<ProcessState> receive_process_state(int connection,
                                                           std::chrono::milliseconds patience);

/// Whether a name is plain: letters, digits, '.', '_' and '-', and no '.' at the begin.
[[nodiscard]] bool is_plain_name(const std::string& name);

}  // namespace callgate::container
