#include "supervisor/audit/write/log.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <mutex>
#include <utility>

#include "base/clock.hpp"
#include "base/fs_user.hpp"
#include "base/test_switch.hpp"
#include "supervisor/audit/write/format.hpp"
#include "supervisor/audit/write/log_descriptor.hpp"
#include "supervisor/audit/write/log_file.hpp"
#include "supervisor/audit/write/repeats.hpp"

namespace callgate::audit {

namespace {

constexpr std::uint64_t no_limit = UINT64_MAX;

std::uint64_t default_limit(int fd) {
    struct statvfs free {};
    if (::fstatvfs(fd, &free) != 0) return no_limit;
    return default_log_limit(std::uint64_t{free.f_bavail} * free.f_frsize);
}

}  // namespace

struct Log::State {
    explicit State(Options chosen) : options(std::move(chosen)), repeats(options.max_equal) {}

    /// Formats on the caller's thread, then numbers and writes under the lock.
    template <typename Record>
    Result<std::uint64_t> append(const Record& record);
    /// The same for a decision that equal ones may have come before.
    Result<std::uint64_t> append_or_count(const Decision& decision);
    /// Writes counts: those that are due, or all. Returns false if some are left for later.
    bool append_counts(bool all);
    /// Numbers, seals and writes a formatted line. Call it under `lock`.
    Result<std::uint64_t> put(Buffer& line, std::size_t sequence_at, bool with_signature);
    /// Whether so many more bytes may be written, and tells of it. Call it under `lock`.
    bool fits(std::size_t more);
    void checkpoint_if_due();
    /// Writes one line whole, or not at all if that is possible. Returns 0 or an errno. Call it under `lock`.
    int write_line(std::string_view line);
    void cut_back(std::size_t written);
    /// Continues in the next segment. Returns 0 or an errno. Call it under `lock`.
    int rotate();
    [[nodiscard]] bool segment_is_full(std::size_t more) const {
        return directory.valid() && segment_size > 0 && segment_size + more > options.segment_bytes;
    }
    /// False: the calling thread acts as another user, or in a container with users of its own. It could not
    /// make the next segment, or not as this log's user. A full one then goes on until another thread writes.
    [[nodiscard]] bool acts_as_owner() const;

    const Options options;
    UniqueFd directory;                        // valid only in directory mode
    std::string stem, path;                    // "<time>-<run>", the first segment's path
    std::atomic<std::int64_t> wait_until = 0;  // monotonic; 0: no limit

    std::mutex lock;
    UniqueFd fd;
    std::vector<UniqueFd> retired;  // full segments that are not yet synced
    std::uint64_t segment_size = 0;
    unsigned segment = 1;
    bool torn = false;  // the file's last line has no end and could not be cut off
    bool directory_synced = true;
    bool warned = false, full = false;
    DescriptorKind kind = DescriptorKind::file;
    std::atomic<bool> sync_wanted = false;
    std::atomic<bool> ending = false;  // the last records have room beyond the limit
    ChainHash head = ChainHash::none();
    std::uint64_t checkpointed = 0;   // records up to the last checkpoint
    std::time_t checkpoint_time = 0;  // monotonic seconds
    std::atomic<std::uint64_t> records = 0;
    std::atomic<std::uint64_t> synced_records = 0;
    std::atomic<int> lost =
        0;  // errno of a failed fdatasync: written records may be gone, so nothing follows them

    std::uint64_t limit = no_limit, size = 0;  // bytes of all segments that this run wrote

    std::mutex repeats_lock;  // no other lock is taken under it
    Repeats repeats;

    std::mutex sync_lock;  // one fdatasync at a time; taken before `lock`
};

namespace {

std::string utc_now() {
    const std::time_t now = ::time(nullptr);
    std::tm parts{};
    ::gmtime_r(&now, &parts);
    char text[32];
    return {text, std::strftime(text, sizeof text, "%Y%m%dT%H%M%SZ", &parts)};
}

std::time_t monotonic_seconds() {
    timespec now{};
    ::clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
    return now.tv_sec;
}

/// Errors of fdatasync that mean loss; a pipe or a terminal only reports that it cannot sync.
bool means_loss(int error) { return error == EIO || error == ENOSPC || error == EDQUOT; }

}  // namespace

template <typename Record>
Result<std::uint64_t> Log::State::append(const Record& record) {
    thread_local Buffer line(16384);
    const std::size_t sequence_at = format(line, {options.run, options.mode}, record);
    if (line.size() - head_room + 20 > max_line) return errno_code(EMSGSIZE);

    const std::lock_guard guard(lock);
    if (!fits(line.size())) return errno_code(EFBIG);
    Result<std::uint64_t> sequence = put(line, sequence_at, std::is_same_v<Record, RunEnd>);
    if (sequence && !std::is_same_v<Record, RunEnd>) checkpoint_if_due();
    return sequence;
}

bool Log::State::fits(std::size_t more) {
    if (ending || !check_enabled("log-limit")) return true;
    if (size + more > limit) {
        if (!std::exchange(full, true) && options.full) options.full(limit);
        return false;
    }
    if (size + more > limit / 5 * 4 && !std::exchange(warned, true) && options.nearly_full)
        options.nearly_full(limit);
    return true;
}

Result<std::uint64_t> Log::State::append_or_count(const Decision& decision) {
    if (!Repeats::countable(decision)) return append(decision);
    const std::string key = Repeats::key_of(decision);
    Repeats::Seen seen;
    {
        const std::lock_guard guard(repeats_lock);
        seen = repeats.see(key, decision, monotonic_ns());
    }
    if (seen.count == 0) return std::uint64_t{0};
    Result<std::uint64_t> written = std::uint64_t{0};
    if (seen.count == 1 && !seen.announces) {
        written = append(decision);
    } else {
        Decision stated = decision;
        stated.count = seen.count;
        stated.counted = seen.announces;
        written = append(stated);
    }
    if (written) return written;
    const std::lock_guard guard(repeats_lock);
    repeats.unwritten(key, seen.count);
    return written;
}

bool Log::State::append_counts(bool all) {
    std::vector<Repeats::Due> due;
    bool none_left = true;
    {
        const std::lock_guard guard(repeats_lock);
        due = repeats.take_due(monotonic_ns(), all);
        none_left = !repeats.any_pending();
    }
    for (const Repeats::Due& one : due) {
        Decision stated = one.last->decision();
        stated.count = one.count;
        if (append(stated)) continue;
        const std::lock_guard guard(repeats_lock);
        repeats.unwritten(one.key, one.count);
        none_left = false;
    }
    return none_left;
}

/// A checkpoint that cannot be written is no loss: a checkpoint may follow the next record.
void Log::State::checkpoint_if_due() {
    const std::uint64_t now_records = records.load(std::memory_order_relaxed);
    const std::time_t now = monotonic_seconds();
    if (checkpoint_time == 0) checkpoint_time = now;
    if (now_records - checkpointed < options.checkpoint_records &&
        now - checkpoint_time < options.checkpoint_seconds)
        return;
    Buffer line(1024);
    const std::size_t sequence_at = format(line, {options.run, options.mode}, Checkpoint{now_records});
    if (!put(line, sequence_at, true)) return;
    checkpointed = records.load(std::memory_order_relaxed);
    checkpoint_time = now;
    sync_wanted.store(true, std::memory_order_relaxed);
}

Result<std::uint64_t> Log::State::put(Buffer& line, std::size_t sequence_at, bool with_signature) {
    if (const int error = lost.load(std::memory_order_relaxed); error != 0) return errno_code(error);
    if (segment_is_full(line.size()) && acts_as_owner()) {
        if (const int error = rotate(); error != 0) return errno_code(error);
    }
    const std::uint64_t sequence = records.load(std::memory_order_relaxed) + 1;
    std::size_t start = put_sequence(line, sequence_at, sequence);
    const ChainHash hash = seal(line, start, head);
    if (with_signature && options.key) {
        const std::string signature = options.key->sign(hash);
        if (signature.empty()) return errno_code(EIO);
        sign(line, signature);
    }
    if (torn) line.data()[--start] = '\n';
    if (const int error = write_line(line.view().substr(start)); error != 0) return errno_code(error);
    torn = false;
    head = hash;
    if (options.copy) options.copy(line.view().substr(line.view()[start] == '\n' ? start + 1 : start));
    records.store(sequence, std::memory_order_relaxed);
    return sequence;
}

int Log::State::write_line(std::string_view line) {
    std::size_t written = 0;
    while (written < line.size()) {
        const ssize_t got = write_some(fd.get(), kind, line.data() + written, line.size() - written);
        if (got < 0 && errno == EINTR) continue;
        const bool full = got < 0 && errno == EAGAIN && kind != DescriptorKind::file;
        if (full && wait_for_reader(fd.get(), wait_until)) continue;
        if (got <= 0) {
            const int error = full ? ETIMEDOUT : got < 0 ? errno : ENOSPC;
            if (written > 0) cut_back(written);
            return error;
        }
        written += static_cast<std::size_t>(got);
    }
    segment_size += line.size();
    size += line.size();
    return 0;
}

void Log::State::cut_back(std::size_t written) {
    torn = true;
    if (kind != DescriptorKind::file) return;
    // O_APPEND leaves the offset behind the written bytes. A larger file has bytes of others behind ours.
    const off_t end = ::lseek(fd.get(), 0, SEEK_CUR);
    struct stat status {};
    if (end < 0 || ::fstat(fd.get(), &status) != 0 || status.st_size != end) return;
    if (::ftruncate(fd.get(), end - static_cast<off_t>(written)) == 0) torn = false;
}

bool Log::State::acts_as_owner() const {
    struct stat status {};
    return ::fstat(fd.get(), &status) == 0 && status.st_uid == fs_user();
}

int Log::State::rotate() {
    Result<UniqueFd> next = create_log(directory.get(), stem + '.' + std::to_string(segment + 1) + ".jsonl");
    if (!next) return next.error().value();
    retired.push_back(std::exchange(fd, std::move(*next)));
    ++segment;
    segment_size = 0;
    torn = false;
    directory_synced = false;
    return 0;
}

Log::Log(std::unique_ptr<State> state) : state_(std::move(state)) {}
Log::~Log() = default;

Result<std::unique_ptr<Log>> Log::in_directory(const std::string& directory, Options options) {
    if (options.run.empty() || options.run.find('/') != std::string::npos) return errno_code(EINVAL);
    Result<UniqueFd> opened = open_private_directory(directory);
    if (!opened) return opened.error();
    auto state = std::make_unique<State>(std::move(options));
    state->directory = std::move(*opened);
    state->stem = utc_now() + '-' + state->options.run;
    Result<UniqueFd> file = create_log(state->directory.get(), state->stem + ".jsonl");
    if (!file) return file.error();
    state->fd = std::move(*file);
    state->path = directory + (directory.back() == '/' ? "" : "/") + state->stem + ".jsonl";
    state->directory_synced = false;
    state->limit = state->options.limit.value_or(default_limit(state->fd.get()));
    return std::unique_ptr<Log>(new Log(std::move(state)));
}

Result<std::unique_ptr<Log>> Log::at_file(const std::string& path, Options options) {
    auto state = std::make_unique<State>(std::move(options));
    state->path = path;
    Recovered recovered;
    if (Result<UniqueFd> fresh = create_log(AT_FDCWD, path)) {
        state->fd = std::move(*fresh);
    } else if (fresh.error().value() != EEXIST) {
        return fresh.error();
    } else {
        Result<ContinuedLog> continued = continue_log(path);
        if (!continued) return continued.error();
        state->fd = std::move(continued->fd);
        state->head = continued->head;
        recovered = {continued->torn_bytes, std::move(continued->set_aside)};
    }
    state->limit = state->options.limit.value_or(default_limit(state->fd.get()));
    if (recovered.bytes > 0) {
        if (const auto noted = state->append(recovered); !noted) return noted.error();
    }
    return std::unique_ptr<Log>(new Log(std::move(state)));
}

Result<std::unique_ptr<Log>> Log::on_descriptor(UniqueFd fd, Options options) {
    const auto kind = prepare_descriptor(fd.get());
    if (!kind) return kind.error();
    auto state = std::make_unique<State>(std::move(options));
    state->kind = *kind;
    const bool file = state->kind == DescriptorKind::file;
    state->limit = state->options.limit.value_or(file ? default_limit(fd.get()) : no_limit);
    state->fd = std::move(fd);
    return std::unique_ptr<Log>(new Log(std::move(state)));
}

Result<std::uint64_t> Log::record(const Decision& decision) { return state_->append_or_count(decision); }
Result<std::uint64_t> Log::record(const ActFailed& what) { return state_->append(what); }
Result<std::uint64_t> Log::record(const AnswerLost& what) { return state_->append(what); }
Result<std::uint64_t> Log::record(const Refused& what) { return state_->append(what); }
Result<std::uint64_t> Log::record(const RunStart& start) { return state_->append(start); }
Result<std::uint64_t> Log::record(const RunEnd& end) {
    state_->ending = true;
    if (check_enabled("last-counts")) static_cast<void>(state_->append_counts(true));
    return state_->append(end);
}
Result<std::uint64_t> Log::record(const PromptShown& what) { return state_->append(what); }
Result<std::uint64_t> Log::record(const PromptAnswered& what) { return state_->append(what); }
Result<std::uint64_t> Log::record(const PromptWithdrawn& what) { return state_->append(what); }
Result<std::uint64_t> Log::record(const GrantRevoked& what) { return state_->append(what); }

void Log::sync() {
    const std::lock_guard one(state_->sync_lock);
    std::vector<UniqueFd> retired;
    bool new_name = false;
    int current = -1;
    std::uint64_t reached = 0;
    {
        const std::lock_guard guard(state_->lock);
        retired.swap(state_->retired);
        new_name = !std::exchange(state_->directory_synced, true);
        current = state_->fd.get();
        reached = state_->records.load(std::memory_order_relaxed);
    }
    if (retired.empty() && !new_name && reached == state_->synced_records.load(std::memory_order_relaxed))
        return;
    // Rotation may retire `current` meanwhile, but only the next sync, which waits for this one, closes it.
    retired.emplace_back();
    for (const UniqueFd& full : retired) {
        const int fd = full.valid() ? full.get() : current;
        if (::fdatasync(fd) != 0 && means_loss(errno)) state_->lost = errno;
    }
    if (new_name && state_->directory.valid()) static_cast<void>(::fsync(state_->directory.get()));
    state_->synced_records = reached;
}

bool Log::write_counts() { return state_->append_counts(false); }

const std::string& Log::path() const { return state_->path; }
void Log::limit_waiting(std::chrono::milliseconds patience) {
    state_->wait_until = monotonic_ns() + std::chrono::nanoseconds(patience).count();
}

std::uint64_t Log::records() const { return state_->records; }
bool Log::sync_due() {
    return state_->sync_wanted.load(std::memory_order_relaxed) && state_->sync_wanted.exchange(false);
}

std::string Log::head() const {
    const std::lock_guard guard(state_->lock);
    return std::string(state_->head.view());
}

int Log::descriptor() const {
    const std::lock_guard guard(state_->lock);
    return state_->fd.get();
}

}  // namespace callgate::audit
