#include "supervisor/approval/external_decider.hpp"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/write_all.hpp"
#include "supervisor/approval/protocol/wire.hpp"

namespace callgate::approval {

bool ExternalDecider::start(const std::string& program, const std::string& run, const QuestionView& shown) {
    const UniqueFd question(::memfd_create("callgate-question", MFD_CLOEXEC));
    int ends[2] = {-1, -1};
    if (!question || !write_all(question.get(), shown.message + '\n') ||
        ::lseek(question.get(), 0, SEEK_SET) != 0 || ::pipe2(ends, O_CLOEXEC) != 0)
        return false;
    UniqueFd reading(ends[0]);
    const UniqueFd writing(ends[1]);
    const pid_t pid = ::fork();
    if (pid == 0) {
        sigset_t none;
        ::sigemptyset(&none);
        ::sigprocmask(SIG_SETMASK, &none, nullptr);
        ::dup2(question.get(), 0);
        ::dup2(writing.get(), 1);
        ::execlp(program.c_str(), program.c_str(), static_cast<char*>(nullptr));
        ::_exit(127);
    }
    if (pid < 0) return false;
    end();
    pid_ = pid;
    output_ = std::move(reading);
    run_ = run;
    id_ = shown.id;
    deadline_ns_ = shown.deadline_ns;
    return true;
}

bool ExternalDecider::overdue(std::int64_t now_ns) const {
    constexpr std::int64_t second_ns = 1'000'000'000;
    return pid_ > 0 && now_ns > deadline_ns_ + second_ns;
}

std::optional<ProgramAnswer> ExternalDecider::take() {
    char bytes[4096];
    const ssize_t got = ::read(output_.get(), bytes, sizeof bytes);
    if (got > 0 && text_.size() < max_message) {
        text_.append(bytes, static_cast<std::size_t>(got));
        return std::nullopt;
    }
    int status = 1;
    if (::waitpid(pid_, &status, WNOHANG) == 0) {
        if (got <= 0) {  // it goes on without its output: what is waited for now is its end
            output_.reset(static_cast<int>(::syscall(SYS_pidfd_open, pid_, 0)));
            if (output_) return std::nullopt;
        }
        ::kill(pid_, SIGKILL);
        ::waitpid(pid_, &status, 0);
    }
    pid_ = -1;
    return parse_program_answer(status == 0 ? text_ : "");
}

void ExternalDecider::end() {
    if (pid_ > 0) {
        ::kill(pid_, SIGKILL);
        ::waitpid(pid_, nullptr, 0);
    }
    pid_ = -1;
    output_.reset();
    text_.clear();
    run_.clear();
    id_ = 0;
    deadline_ns_ = 0;
}

}  // namespace callgate::approval
