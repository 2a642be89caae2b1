// A question for a person or a program, and the answers to it: values, shown and compared.
//
// A question owns its content, as it outlives the call that made it. The target chooses its bytes (names,
// arguments), so they are escaped wherever they are shown. They are what was resolved and pinned, never what
// the target wrote.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/unique_fd.hpp"
#include "rules/model/request.hpp"
#include "rules/model/verdict.hpp"
#include "supervisor/audit/write/record.hpp"

namespace callgate::approval {

/// How far an answer reaches: one call; for the rest of the run this object; everything beneath its
/// directory, or below the name's zone. It never reaches further than the operations and the program that
/// were shown. `run` is for denials alone: every question that is still to come in this run.
enum class Scope : std::uint8_t { once, object, tree, run };
[[nodiscard]] std::string_view name(Scope scope);
[[nodiscard]] std::optional<Scope> parse_scope(std::string_view word);

/// The resolved object of a question, without views.
struct AskedObject {
    enum class Kind : std::uint8_t { file, internet, unix_socket, host };
    Kind kind = Kind::file;
    std::string name;                // path, name of a unix socket, or host
    rules::Endpoint endpoint;        // without its names:
    std::vector<std::string> names;  // of the endpoint; they are no part of what is compared
    rules::UnixType unix_type = rules::UnixType::stream;

    explicit AskedObject(const rules::Object& object);
    AskedObject() = default;
    bool operator==(const AskedObject& other) const;
    /// For the evaluator; it refers to this.
    [[nodiscard]] rules::Object view() const;
    /// A path, "203.0.113.4:443", "[::1]:80/udp" or "@name"; not yet safe for a terminal.
    [[nodiscard]] std::string text() const;
};

/// The content that is compared: equal questions are joined, and grants matched, by this.
struct Subject {
    rules::OperationSet operations, second_operations;
    AskedObject object;
    std::string second_path;  // rename, link: the new name
    std::string program;      // the asking process's executable
    /// The arguments of an execution, or the settings that a move changes with old and new values.
    std::vector<std::string> arguments;
    std::optional<rules::Party> party;  // the asking process's, where the rules know parties
    bool any_program = false;  // `callgate request` asks: an answer for the run is for each program of it
    bool widens = false;       // the move lets the object be used for more, so it is offered once only
};

struct Process {
    pid_t pid = 0;
    std::string program;
};

struct Question {
    std::uint64_t id = 0;  // given by the queue
    bool again = false;    // set by the queue: the same was denied once before
    std::string key;       // "sha256:…": over the subject, the rule and the object's identity
    Subject subject;
    rules::Operation operation = rules::Operation::read;  // what the rule asks about
    std::string rule, reason;
    std::string asked_as;  // the name that the first caller gave, or ""
    std::string source;    // hard links only: the path of the existing file
    std::string host;      // the host name by which a rule knows the address, or ""

    // Existing files only. The file is pinned, so that its inode number is not reused while it is asked
    // about.
    std::optional<audit::FileIdentity> identity;
    UniqueFd pin;
    bool directory = false;
    std::uint64_t size = 0;
    bool own_zone = false;  // look-ups only: not everybody can have names beside this one

    pid_t process = 0;  // the first caller's
    std::uint64_t start_time = 0;
    std::vector<std::string> arguments;  // the asking process's, bounded
    std::vector<Process> ancestors;      // nearest first, bounded

    /// Whether an allowing answer can have this scope; `once` can always be given, `run` never.
    [[nodiscard]] bool offers(Scope scope) const;
    /// The directory of scope `tree`; of the look-up of a name "*.example.org".
    [[nodiscard]] std::string directory_of_tree() const;
    /// Whether scope `tree` may reach this directory: the one of `directory_of_tree`, or one above it. It is
    /// neither the home, nor above the home, nor directly beneath the root.
    [[nodiscard]] bool offers_tree(const std::string& tree) const;
    /// The widest of these; "" if there is no choice.
    [[nodiscard]] std::string widest_tree() const;
    /// Whether scope `tree` may mean reading and writing, whichever of them was asked about.
    [[nodiscard]] bool offers_writing() const;
    /// The user's home directory: neither it nor a directory above it is offered as a tree.
    std::string home;
};

/// The key of a question ("sha256:..."), computed from what identifies it.
[[nodiscard]] std::string key_of(const Subject& subject, std::string_view rule,
                                 const std::optional<audit::FileIdentity>& identity);

/// The operations of an answer with `reads_and_writes`.
inline constexpr rules::OperationSet reading_and_writing =
    rules::write_operations | rules::OperationSet{rules::Operation::read};

/// An answer, and who gave it.
struct Reply {
    rules::Action action = rules::Action::deny;  // allow, deny, kill
    Scope scope = Scope::once;
    std::string reason{};  // given by a program, or ""
    rules::DecidedBy by = rules::DecidedBy::person;
    audit::Answerer who{};
    std::string tree{};             // scope `tree`: the directory that it reaches; "": the nearest
    bool reads_and_writes = false;  // scope `tree`: both, not only what was asked about
};

/// An answer that a parked call takes along.
struct Approval {
    std::string key;
    rules::Action action = rules::Action::deny;
    rules::DecidedBy by = rules::DecidedBy::person;
    std::uint64_t question = 0, grant = 0;
    std::string reason;
};

}  // namespace callgate::approval
