// A line of the audit log as a value.
//
// Bytes that the target chose (paths, arguments, names) are escaped once, when the record is formatted. Bytes
// that are not valid UTF-8 are escaped and also given whole in base64. Control, bidirectional and other
// format characters become \u escapes. So a line is always one line, and safe on a terminal.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "rules/load/load_snapshot.hpp"
#include "rules/model/request.hpp"
#include "rules/model/verdict.hpp"
#include "supervisor/audit/write/outcome.hpp"

namespace callgate::audit {

enum class Mechanism : std::uint8_t {
    error,
    on_behalf,
    continued,
    kill,
    filtered
};  // "errno", "on_behalf", "continue", "kill", "filtered"
enum class Tier : std::uint8_t { kernel, contested };

/// The process that asked: numbers from the kernel, the executable by readlink.
struct Caller {
    int pid = 0;                   // thread group id if known, else the thread's
    int parent = 0;                // 0: not known
    std::uint64_t start_time = 0;  // clock ticks since boot, field 22 of /proc/PID/stat; 0: not known
    std::string_view executable;
    std::uint32_t uid = 0;
    std::optional<rules::Party> party{};  // where the rules know parties
    std::string_view nested{};            // name of the nested run that it is of; "": of none
};

/// Why nobody was asked although a rule asks. The verdict on record is then `deny`, by that rule.
namespace unasked {
inline constexpr std::string_view nobody = "no one to ask";
inline constexpr std::string_view unlinked = "what has no name cannot be asked about";
inline constexpr std::string_view late = "it is too late to ask";
}  // namespace unasked

/// The arguments as the target gave them: everything the evaluator's decoder used.
struct CallInput {
    std::optional<int> directory_fd;     // absent if the path is absolute or relative to cwd
    std::string_view working_directory;  // "" if it was not used
    std::string_view path;
    std::string_view second_path;         // rename, link, symlink; or the detail of a metadata call
    std::vector<std::string_view> flags;  // "O_RDONLY", ...
    std::optional<std::uint32_t> mode;
    std::span<const std::string> arguments;  // of an execve, if some rule asks for them
};

/// Identity of a file object, if the object exists.
struct FileIdentity {
    std::uint64_t inode = 0, device = 0;
};

struct Decision {
    std::string_view call;  // "openat"
    Caller caller;
    CallInput input;
    rules::Operation operation = rules::Operation::read;  // the one that the verdict is about
    rules::OperationSet operations;                       // all operations of the call
    rules::OperationSet second_operations;                // those on the second object
    rules::OperationSet first_operations;                 // those on the first object, if there is a second
    rules::Object object;
    std::optional<rules::FileObject> second_object;  // rename, link: the new name
    std::optional<FileIdentity> identity;
    rules::Verdict verdict;
    /// Replaces the rule's reason: says why a failure denied ("overload", "target memory unreadable", ...).
    std::string_view reason;
    Mechanism mechanism = Mechanism::error;
    Tier tier = Tier::contested;
    std::int64_t duration_ns = 0;
    /// The question whose answer decided, and the grant that did; 0 if there is none.
    std::uint64_t question = 0, grant = 0;
    /// Set in an answer to one part of an execution, recorded before the whole: the file that this one
    /// interprets.
    std::string_view interpreter_of;
    /// Set in a second record, if another program began to run than was judged: the number of the first
    /// record.
    std::uint64_t of_sequence = 0;
    /// The number of equal denials that this record states (repeats.hpp), and whether later ones are counted.
    std::uint64_t count = 1;
    bool counted = false;
};

/// A second record: the result of a decision, if it differs from what was decided.
struct ActFailed {
    std::uint64_t of_sequence = 0;
    int error = 0;
};
struct AnswerLost {
    std::uint64_t of_sequence = 0;
    std::string_view why;
};

/// A call that the filter refuses by its arguments, in every run of these rules. The first call of a program
/// and kind is recorded before its answer. At the end a second record has the total, if there were more.
struct Refused {
    std::string_view call;         // "socket"
    std::string_view kind;         // "UDP sockets"
    std::string_view consequence;  // what follows from it, for people
    Caller caller{};
    int error = 0;
    std::uint64_t count = 1;
    std::uint64_t of_sequence = 0;  // of a total: the first record; else 0
};

/// A question, recorded before anybody sees it. The views show bytes that the target chose.
struct PromptShown {
    std::uint64_t question = 0;
    std::string_view key, rule, object, second_object, source, asked_as, program;
    rules::Operation operation = rules::Operation::read;      // the one that the rule asks about
    rules::OperationSet operations;                           // all operations of the call
    rules::OperationSet first_operations, second_operations;  // on the object and on the second one
    rules::Object resolved;                                   // the object that `object` describes
    std::optional<FileIdentity> identity;
    std::span<const std::string> arguments;  // for execute
    int pid = 0;
    std::uint64_t start_time = 0;
};
/// The answerer: the uid and pid of the process behind the channel (0: not known), and the channel.
struct Answerer {
    std::uint32_t uid = 0;
    int pid = 0;
    std::string channel;  // "tty", "socket", "fd"
};
/// The answer, recorded before any call gets it.
struct PromptAnswered {
    std::uint64_t question = 0;
    std::string_view key;
    rules::Action answer = rules::Action::deny;
    rules::DecidedBy by = rules::DecidedBy::person;
    std::string_view scope;          // "once", "object", "tree", "run"
    std::string_view object;         // for a tree: the directory
    rules::OperationSet operations;  // of the grant, if they are more than what was asked about
    std::uint64_t grant = 0;         // the one that was made; 0: none
    Answerer who;
    std::int64_t took_ns = 0;
    std::uint64_t callers = 0;  // callers that asked the same until now
    std::string_view reason;    // as a program gave it
};
/// The question is asked no longer: no call waits for its answer.
struct PromptWithdrawn {
    std::uint64_t question = 0;
    std::string_view key, why;
};
struct GrantRevoked {
    std::uint64_t grant = 0;
    Answerer who;
};

/// A log was continued. Its last line was torn (by a crash, a full disk) and was moved to another file.
struct Recovered {
    std::uint64_t bytes = 0;
    std::string set_aside;
};

/// States how many records lie before this one. If a log lacks its end, this shows how far it was whole.
struct Checkpoint {
    std::uint64_t records = 0;
};

struct RunStart {
    std::vector<std::string> command;  // secrets are taken out when it is recorded
    std::string workdir, temporary_directory, home, config, rules_sha256, kernel, host;
    std::string user_home = {};  // where `home` is a lasting one of the run; else ""
    rules::LoadSnapshot snapshot;
    int landlock_abi = 0;
    std::vector<std::string> degraded;
    std::vector<std::string> profiles;
    int pid = 0;
};

struct Counts {
    std::uint64_t allow = 0, ask = 0, deny = 0, kill = 0, would_deny = 0, would_ask = 0, would_kill = 0;
};
/// Name and place of each count, in the order in which logs and reports have them.
inline constexpr std::pair<const char*, std::uint64_t Counts::*> count_members[] = {
    {"allow", &Counts::allow},
    {"deny", &Counts::deny},
    {"ask", &Counts::ask},
    {"kill", &Counts::kill},
    {"would_deny", &Counts::would_deny},
    {"would_ask", &Counts::would_ask},
    {"would_kill", &Counts::would_kill}};

struct RunEnd {
    Outcome outcome = Outcome::setup_error;
    std::optional<int> exit_code;
    std::optional<int> signal;
    std::int64_t duration_ms = 0;
    Counts counts;
};

}  // namespace callgate::audit
