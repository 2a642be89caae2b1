// A program that works for callgate itself: its own once more for a job, getent(1) for names.
//
// It leads a session of its own, so that neither the terminal nor the group of whoever started callgate
// reaches it, and is killed with the thread that started it. It gets the descriptors that are named and no
// other.
#pragma once

#include <sys/types.h>

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/process/signals.hpp"
#include "base/result.hpp"
#include "base/unique_fd.hpp"

namespace callgate {

struct Child {
    pid_t pid = -1;
    UniqueFd pidfd;
};

inline constexpr const char* own_program = "/proc/self/exe";

/// `program` is a path; `words` begin with its name. `descriptors`: what is open here, and as what number
/// there. Those here are close-on-exec and at least `first_descriptor`; standard ones that are not named are
/// /dev/null there. `signals` is what the child inherits of them. Call it from a thread that lives as long as
/// the process. The caller reaps. Errors: errno of clone(2) and of execve(2) (E2BIG: too many words).
[[nodiscard]] Result<Child> spawn(const char* program, const std::vector<std::string>& words,
                                  const std::vector<std::string>& environment,
                                  std::span<const std::pair<int, int>> descriptors,
                                  const SignalState& signals);

/// Waits until it has ended, and reaps it; its status, as waitpid(2) has it.
int reap(pid_t child);

/// Above every number that a child gets.
inline constexpr int first_descriptor = 16;

struct Pipe {
    UniqueFd read, write;
};
/// Close-on-exec, both ends at least `first_descriptor`. Errors: errno of pipe2(2).
[[nodiscard]] Result<Pipe> make_pipe();

/// A file without a name that holds `bytes`, to be read from its beginning. Errors: errno of
/// memfd_create(2), write(2).
[[nodiscard]] Result<UniqueFd> make_file(std::string_view bytes);

}  // namespace callgate
