// What a person or a program is asked about, and what they can answer: values, shown and compared.
//
// Everything is owned: a question outlives the call that made it. Its bytes (names, arguments) are the
// target's choice and pass through escaping wherever they are shown. What it says is what was resolved and
// pinned, never what the target wrote.
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

/// How far an answer reaches: one call, this very object for the rest of the run, or everything beneath its
/// directory for the rest of the run. Never further than the operations and the program that were shown.
enum class Scope : std::uint8_t { once, object, tree };
[[nodiscard]] std::string_view name(Scope scope);
[[nodiscard]] std::optional<Scope> parse_scope(std::string_view word);

/// The resolved object of a question, without views.
struct AskedObject {
    enum class Kind : std::uint8_t { file, internet, unix_socket };
    Kind kind = Kind::file;
    std::string name;  // path, or name of a unix socket
    rules::Endpoint endpoint;
    rules::UnixType unix_type = rules::UnixType::stream;

    explicit AskedObject(const rules::Object& object);
    AskedObject() = default;
    bool operator==(const AskedObject& other) const;
    /// As the evaluator sees it: views of this.
    [[nodiscard]] rules::Object view() const;
    /// A path, "203.0.113.4:443", "[::1]:80/udp", "@name": not yet safe for a terminal.
    [[nodiscard]] std::string text() const;
};

/// What was asked for: questions are joined, and grants matched, by this.
struct Subject {
    rules::OperationSet operations, second_operations;
    AskedObject object;
    std::string second_path;             // rename, link: the new name
    std::string program;                 // the asking process's executable
    std::vector<std::string> arguments;  // of an execute
    bool widens = false;                 // a move that lets the object be used otherwise: once only
};

struct Process {
    pid_t pid = 0;
    std::string program;
};

struct Question {
    std::uint64_t id = 0;  // given by the broker
    std::string key;       // "sha256:…": over the subject, the rule and the object's identity
    Subject subject;
    rules::Operation operation = rules::Operation::read;  // what the rule asks about
    std::string rule, reason;
    std::string asked_as;  // the name that the first caller gave; "" where it gave none
    std::string source;    // of a hard link: what gets the name; "" otherwise
    std::string host;      // the name that the rule gave to an address, "" none

    // Of a file that exists; it is pinned, so that its number is nobody else's while it is asked about.
    std::optional<audit::FileIdentity> identity;
    UniqueFd pin;
    bool directory = false;
    std::uint64_t size = 0;

    pid_t process = 0;  // of the first caller
    std::uint64_t start_time = 0;
    std::vector<std::string> arguments;  // of the asking process, bounded
    std::vector<Process> ancestors;      // nearest first, bounded

    /// What can be offered: `once` always.
    [[nodiscard]] bool offers(Scope scope) const;
    /// The directory of scope `tree`.
    [[nodiscard]] std::string directory_of_tree() const;
    /// Set by who makes it: home and what lies above it are never a tree.
    std::string home;
};

/// The key of a question without its "sha256:" computed from what identifies it.
[[nodiscard]] std::string key_of(const Subject& subject, std::string_view rule,
                                 const std::optional<audit::FileIdentity>& identity);

/// What was answered, by whom.
struct Reply {
    rules::Action action = rules::Action::deny;  // allow, deny, kill
    Scope scope = Scope::once;
    std::string reason{};  // of a program; "" none
    rules::DecidedBy by = rules::DecidedBy::person;
    audit::Answerer who{};
};

/// What a parked call takes along: the answers to what was asked about it.
struct Approval {
    std::string key;
    rules::Action action = rules::Action::deny;
    rules::DecidedBy by = rules::DecidedBy::person;
    std::uint64_t question = 0, grant = 0;
    std::string reason;
};

}  // namespace callgate::approval
