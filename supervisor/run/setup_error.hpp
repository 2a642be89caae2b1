// Failures before the command begins: one line for the user, exit status 125.
#pragma once

#include <boost/system/result.hpp>
#include <stdexcept>
#include <string>
#include <system_error>
#include <type_traits>

#include "base/unique_fd.hpp"

namespace callgate {

/// A run that cannot start. Thrown only before the command begins.
struct SetupError : std::runtime_error {
    using std::runtime_error::runtime_error;
};

/// The system's text for an errno.
[[nodiscard]] inline std::string because(int error) { return std::generic_category().message(error); }

/// The value, or a SetupError that says which operation failed and why.
template <class T>
T require(boost::system::result<T> result, const std::string& what) {
    if (!result) throw SetupError(what + ": " + because(result.error().value()));
    if constexpr (!std::is_void_v<T>) return std::move(*result);
}

/// "cannot make the run's private directory ...": the cause, and the remedy.
[[nodiscard]] std::string no_private_directory(const std::string& path, int error, bool nested = false);

/// A copy of a descriptor that was given by number. Throws SetupError, which names `option`.
[[nodiscard]] UniqueFd copy_descriptor(int descriptor, const char* option);

}  // namespace callgate
