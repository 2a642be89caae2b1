// Runs a body in a process of its own, for what a thread cannot take back.
#pragma once

#include <sys/wait.h>
#include <unistd.h>

#include <functional>

namespace callgate::tests {

/// The result of `body` in a forked child; below zero: the signal that killed it.
inline int in_child(const std::function<int()>& body) {
    const pid_t child = ::fork();
    if (child == 0) ::_exit(body());
    int status = 0;
    ::waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

}  // namespace callgate::tests
