// The list of denials for the command itself, which finds it by $CALLGATE_DENIALS: one line for each kind, in
// words for a model.
//
// The file lies beside the run's private directory, not in it. Landlock cannot cut a hole: with a closed name
// beneath that directory, the supervisor would have to decide each file that the run makes there.
//
// The target chooses the names in the list, so each is quoted and cut. It reads the file; built-in rules
// (host/host.hpp) keep it from writing, moving and replacing it. The supervisor writes by a descriptor that
// it opened at the start, so no name is resolved later. The caller holds a lock.
#pragma once

#include <cstddef>
#include <string>

#include "base/result.hpp"
#include "base/unique_fd.hpp"

namespace callgate {

struct Denial;

class DenialsFile {
public:
    /// The most bytes of a list. What comes later is left out, and the last line says so.
    static constexpr std::size_t max_size = 65536;

    /// Makes the file, empty and 0600. EEXIST: something has that name, which is not
    /// followed.
    [[nodiscard]] static Result<DenialsFile> make(const std::string& path, bool hints);

    /// Adds a line. Returns 0, or the errno of a write that failed: then the list stays as it was, for good.
    int add(const Denial& denial);
    /// Ends the list with a line that says that there are more denials. The same result.
    int end();

private:
    DenialsFile(UniqueFd file, bool hints) : file_(std::move(file)), hints_(hints) {}
    int append(const std::string& text);

    UniqueFd file_;
    bool hints_;  // lines name the option by which a person allows the call
    bool over_ = false;
    std::size_t size_ = 0;
};

/// The line about a denial. The names in it stand in quotes, as JSON has them.
[[nodiscard]] std::string told_line(const Denial& denial, bool hint);

}  // namespace callgate
