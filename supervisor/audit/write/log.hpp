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
        /// The maximum size of the log in bytes. The default is half of the space that is free at the start,
        /// at least 1 GiB; a pipe or a socket has no maximum. The last counts and the run's end exceed it.
        std::optional<std::uint64_t> limit{};
        /// So many equal denials have a record each; later ones are counted (repeats.hpp).
        std::uint64_t max_equal = 100;
        /// Called once each, under the log's lock, on any thread: they must not wait. The log has reached
        /// four fifths of its maximum; a record no longer fits.
        std::function<void(std::uint64_t limit)> nearly_full{}, full{};
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
    /// The number is 0 for a denial that is only counted (repeats.hpp): `write_counts` is then due in a
    /// second.
    Result<std::uint64_t> record(const Decision& decision);
    Result<std::uint64_t> record(const ActFailed& what);
    Result<std::uint64_t> record(const AnswerLost& what);
    Result<std::uint64_t> record(const Refused& what);
    Result<std::uint64_t> record(const RunStart& start);
    /// Writes the counts that are left before it.
    Result<std::uint64_t> record(const RunEnd& end);
    Result<std::uint64_t> record(const PromptShown& what);
    Result<std::uint64_t> record(const PromptAnswered& what);
    Result<std::uint64_t> record(const PromptWithdrawn& what);
    Result<std::uint64_t> record(const GrantRevoked& what);

    /// Writes the counts of equal denials that are a second old. Any thread. Returns false if there are
    /// others that will be due.
    bool write_counts();
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
