// Starts a program that works for callgate itself: callgate once more for a job, getent(1) for names.
//
// The program leads a session of its own. So neither the terminal nor the process group of callgate's caller
// reaches it. It is killed with the thread that started it. It gets only the descriptors that are named.
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

/// `program` is a path; `words` begin with its name. `descriptors` pairs a number here with the number in the
/// child. Those here are close-on-exec and at least `first_descriptor`. Standard descriptors that are not
/// named are /dev/null in the child. The child inherits `signals`. Call it from a thread that lives as long
/// as the process. The caller reaps the child. Errors: errno of clone(2) and of execve(2) (E2BIG: too many
/// words).
[[nodiscard]] Result<Child> spawn(const char* program, const std::vector<std::string>& words,
                                  const std::vector<std::string>& environment,
                                  std::span<const std::pair<int, int>> descriptors,
                                  const SignalState& signals);

/// Waits until the child has ended, and reaps it. Returns its status as waitpid(2) defines it.
int reap(pid_t child);

/// A number above every descriptor number that a child gets.
inline constexpr int first_descriptor = 16;

struct Pipe {
    UniqueFd read, write;
};
/// Makes a pipe. Both ends are close-on-exec and at least `first_descriptor`. Errors: errno of pipe2(2).
[[nodiscard]] Result<Pipe> make_pipe();

/// Makes a file without a name that holds `bytes`, to be read from its beginning. Errors: errno of
/// memfd_create(2), write(2).
[[nodiscard]] Result<UniqueFd> make_file(std::string_view bytes);

}  // namespace callgate
