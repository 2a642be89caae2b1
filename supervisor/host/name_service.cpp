#include "supervisor/host/name_service.hpp"

#include <pwd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <memory>
#include <stdexcept>
#include <string_view>

#include "base/process/held_signals.hpp"
#include "base/process/spawn.hpp"
#include "supervisor/host/host.hpp"

namespace callgate {

namespace {

/// The longest answer about one name.
constexpr std::size_t max_answer = std::size_t{1} << 20U;

/// A getent that runs, and the pipe with its answer.
struct Question {
    Child child;
    UniqueFd answer;
};

[[noreturn]] void cannot_ask(const std::string& key, const boost::system::error_code& why) {
    throw std::runtime_error("cannot ask getent for " + key + ": " + why.message());
}

Question ask(const std::string& getent, const char* database, const std::string& key) {
    auto pipe = make_pipe();
    if (!pipe) cannot_ask(key, pipe.error());
    const std::array<std::pair<int, int>, 1> output{{{pipe->write.get(), STDOUT_FILENO}}};
    auto child = spawn(getent.c_str(), {"getent", database, key}, current_environment(), output,
                       SignalState::current());
    if (!child) cannot_ask(key, child.error());
    return {std::move(*child), std::move(pipe->read)};
}

/// Waits for the end of the question.
std::string answer_of(Question question) {
    std::string text;
    std::array<char, 4096> block{};
    while (text.size() < max_answer) {
        const ssize_t got = ::read(question.answer.get(), block.data(), block.size());
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) break;
        text.append(block.data(), static_cast<std::size_t>(got));
    }
    question.answer.reset();  // a process that still writes gets EPIPE
    reap(question.child.pid);
    return text;
}

template <typename Act>
void for_each_line(std::string_view text, Act act) {
    while (!text.empty()) {
        const std::size_t end = std::min(text.find('\n'), text.size());
        act(text.substr(0, end));
        text.remove_prefix(std::min(end + 1, text.size()));
    }
}

std::string home_in_file(uid_t user) {
    const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen("/etc/passwd", "re"), &std::fclose);
    while (file) {
        const passwd* const entry = ::fgetpwent(file.get());
        if (entry == nullptr) break;
        if (entry->pw_uid == user) return entry->pw_dir != nullptr ? entry->pw_dir : "";
    }
    return "";
}

/// "name:password:uid:gid:comment:home:shell"
std::string home_in_line(std::string_view line) {
    for (int field = 0; field < 5; ++field) {
        const std::size_t end = line.find(':');
        if (end == std::string_view::npos) return "";
        line.remove_prefix(end + 1);
    }
    return std::string(line.substr(0, line.find(':')));
}

}  // namespace

std::string home_of(uid_t user) {
    if (std::string home = home_in_file(user); !home.empty()) return home;
    const std::string getent = system_program("getent");
    if (getent.empty()) return "";
    const SignalsLetThrough anybody_may_end_it;
    std::string home;
    for_each_line(answer_of(ask(getent, "passwd", std::to_string(user))),
                  [&](std::string_view line) { home = home_in_line(line); });
    return home;
}

}  // namespace callgate
