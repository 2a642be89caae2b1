// The audit log of one run: JSON Lines, each decision on record before its effect.
//
// A record is one write(2) on an O_APPEND descriptor. A short or failed write makes `record` fail, and the
// caller then denies (docs/dev/architecture.md, invariant 3). The target controls the bytes inside records,
// never where they go. The file is created with O_EXCL|O_NOFOLLOW|O_CLOEXEC, mode 0600, in a directory of
// mode 0700 (docs/audit.md). The log is thread-safe: any receiver records. Sequence numbers and the hash
// chain are in file order.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "base/result.hpp"
#include "base/unique_fd.hpp"
#include "supervisor/audit/write/outcome.hpp"
#include "supervisor/audit/write/record.hpp"
#include "supervisor/audit/write/signature.hpp"

namespace callgate::audit {

class Log {
public:
    struct Options {
        std::string run;  // "k3f9"
        Mode mode = Mode::enforce;
        /// A log in a directory continues in `<name>.2.jsonl`, `.3.jsonl`, ... beyond this many bytes.
        std::uint64_t segment_bytes = 64ULL << 20;
        /// After this many records, or this long after the last checkpoint, a checkpoint follows the next
        /// record.
        std::uint64_t checkpoint_records = 1000;
        int checkpoint_seconds = 10;
        /// The key signs checkpoints and the run's end.
        std::optional<SigningKey> key{};
        /// Receives each line that was written, in order, under the log's lock: it must not wait.
        std::function<void(std::string_view line)> copy{};
    };
    /// Makes the log in `directory` (created with its parents, 0700, if absent), named
    /// `<UTC time>-<run>.jsonl`. Errors: those of open(2) and mkdir(2); EPERM if the directory is not ours or
    /// is writable by others.
    static Result<std::unique_ptr<Log>> in_directory(const std::string& directory, Options options);
    /// --audit FILE: appends to a new file at exactly this path. An existing regular file is continued: a
    /// torn last line is set aside and recorded as `recovered`. A symbolic link or special file is refused.
    static Result<std::unique_ptr<Log>> at_file(const std::string& path, Options options);
    /// --audit fd:N. Records wait for a slow reader; nothing is dropped.
    static Result<std::unique_ptr<Log>> on_descriptor(UniqueFd fd, Options options);
    ~Log();

    /// Writes one decision. Returns its sequence number, or the errno of the failed write. A partial line is
    /// cut off again with ftruncate if possible, so that no torn line stands before a later one.
    Result<std::uint64_t> record(const Decision& decision);
    Result<std::uint64_t> record(const ActFailed& what);
    Result<std::uint64_t> record(const AnswerLost& what);
    Result<std::uint64_t> record(const RunStart& start);
    Result<std::uint64_t> record(const RunEnd& end);
    Result<std::uint64_t> record(const PromptShown& what);
    Result<std::uint64_t> record(const PromptAnswered& what);
    Result<std::uint64_t> record(const PromptWithdrawn& what);
    Result<std::uint64_t> record(const GrantRevoked& what);

    /// From now on the log waits at most this long in all for a reader that does not read. Then writing fails
    /// (ETIMEDOUT).
    void limit_waiting(std::chrono::milliseconds patience);
    /// Whether a checkpoint was written since the last call: a sync is due. Any thread may call it; it is
    /// cheap.
    [[nodiscard]] bool sync_due();
    /// fdatasync, off the answering path (called by the event loop after denials and at the end).
    void sync();
    [[nodiscard]] const std::string& path() const;  // "" for a descriptor
    [[nodiscard]] std::uint64_t records() const;
    /// The chain's head: 64 hex digits.
    [[nodiscard]] std::string head() const;
    [[nodiscard]] int descriptor() const;

private:
    struct State;
    explicit Log(std::unique_ptr<State> state);
    std::unique_ptr<State> state_;
};

}  // namespace callgate::audit
