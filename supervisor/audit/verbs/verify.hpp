// `callgate audit verify`: checks whether a log's hash chain is whole. If it is not, names the damage.
//
// Reads all segments once, in blocks. Memory is bounded by a line and a window of hashes. The file is
// hostile: only the parts of a line that its hash covers are believed. A forger can make the whole chain
// anew. Only `head` or `key`, kept elsewhere, shows that (docs/audit.md).
#pragma once

#include <iosfwd>
#include <optional>
#include <string>
#include <vector>

#include "supervisor/audit/verbs/show.hpp"
#include "supervisor/audit/write/signature.hpp"

namespace callgate::audit {

enum class Damage : std::uint8_t {
    changed,       // a record differs from what was hashed
    removed,       // records are missing in between, or at the front
    inserted,      // records, or something else, were put in between
    reordered,     // records stand in another order
    cut_short,     // the end is not the known head
    bad_signature  // by another key, or of other bytes
};
[[nodiscard]] std::string_view name(Damage damage);

struct Finding {
    Damage damage = Damage::changed;
    std::string path;
    std::uint64_t line = 0;      // of `path`
    std::uint64_t sequence = 0;  // as the record states it; 0: not known
};

struct Verification {
    std::vector<Finding> findings;  // the first hundred
    std::uint64_t more_findings = 0;
    std::uint64_t records = 0, runs = 0, ended_runs = 0, signatures = 0;
    bool unsealed = false;        // some line has no hash (written by an older version)
    bool torn = false;            // the last line is unfinished
    std::uint64_t fragments = 0;  // lines that a failed write left unfinished in between
    ChainHash head = ChainHash::none();

    /// 0: whole, 1: tampered with, 2: incomplete.
    [[nodiscard]] int status() const;
};

struct VerifyOptions {
    LogChoice log{};
    std::optional<ChainHash> head{};
    std::optional<VerifyingKey> key{};
    bool json = false;
};

/// Checks the log at `path` and its later segments. Fails if it cannot be read.
[[nodiscard]] Expected<Verification> verify_log(const std::string& path, const VerifyOptions& options);
[[nodiscard]] int verify(std::ostream& out, std::ostream& errors, const VerifyOptions& options);

}  // namespace callgate::audit
