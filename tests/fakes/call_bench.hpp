// A bench for mediated calls, handled as on a receiving thread: this process is the caller, the kernel a
// fake.
//
// Memory, descriptors and the working directory of the "target" are this process's own. The log is kept in
// memory; the test replaces it (`run.decide.log`) to make recording fail.
#pragma once

#include <doctest/doctest.h>
#include <unistd.h>

#include <array>
#include <initializer_list>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "base/clock.hpp"
#include "supervisor/enforce/call_table.hpp"
#include "supervisor/receive/dispatch.hpp"
#include "tests/fakes/log.hpp"
#include "tests/fakes/notification_source.hpp"
#include "tests/fakes/run_needs.hpp"

namespace callgate::fakes {

/// Says of each blocking step what the test wants.
class Blocks final : public calls::Blocking {
public:
    bool room = true, cautious = false;
    int entered = 0;

    bool enter() override { return room && ++entered > 0; }
    void leave() override {}
    bool expects_blocking() override { return cautious; }
    Interruption interruption() override { return Interruption::none; }
};

class CallBench {
public:
    template <class... Words>
    explicit CallBench(Words&&... words) : run(std::forward<Words>(words)...) {
        run.decide.log = kept.log.get();
        source.keep_copies = true;
    }

    RunNeeds run;
    KeptLog kept;
    std::unique_ptr<audit::Log> full = full_log();
    NotificationSource source;
    Blocks blocking;
    calls::CallerInfo caller;
    calls::WorkerBuffers buffers;
    calls::StaticPaths static_paths;
    std::vector<approval::Approval>* approvals = nullptr;
    pid_t thread = ::gettid();

    /// From now on no record can be written.
    void fill_log() { run.decide.log = full.get(); }

    [[nodiscard]] kernel::Notification notification(const enforce::CallEntry& entry,
                                                    std::initializer_list<std::uint64_t> words) {
        kernel::Notification made{.id = ++calls_, .thread = thread, .call = entry.number, .arguments = {}};
        std::copy(words.begin(), words.end(), made.arguments.begin());
        return made;
    }
    [[nodiscard]] calls::Call context(const enforce::CallEntry& entry, kernel::PendingCall& call) {
        caller.forget();
        return {{run.decide, call, caller, entry, monotonic_ns(), approvals}, blocking, buffers};
    }

    /// Handles one call and returns its answer. Fails the test unless it is answered once.
    kernel::Answer handle(std::string_view name, std::initializer_list<std::uint64_t> words) {
        const enforce::CallEntry* entry = enforce::find_call(name);
        REQUIRE(entry != nullptr);
        const std::size_t before = source.answers.size();
        {
            kernel::PendingCall call(source, notification(*entry, words));
            const calls::Call one = context(*entry, call);
            handler_of (*entry)(one, run.needs.families, static_paths);
        }
        REQUIRE(source.answers.size() == before + 1);
        return source.answers.back().answer;
    }

private:
    std::uint64_t calls_ = 0;
};

/// An argument that points to memory of this process.
inline std::uint64_t at(const void* memory) { return reinterpret_cast<std::uint64_t>(memory); }
/// A descriptor or flags.
inline std::uint64_t number(int value) { return static_cast<std::uint32_t>(value); }

/// Whether the caller gets `error`, and the kernel does not continue the call.
inline bool denied(const kernel::Answer& answer, int error) {
    return !answer.let_continue && answer.error == error;
}

}  // namespace callgate::fakes
