// How functions report errors that a person reads. Errors of the kernel are Results (base/result.hpp).
//
// A caller must not ignore an Expected or a Result. Exceptions are for wrong use at start-up only.
#pragma once

#include <boost/assert/source_location.hpp>
#include <boost/system/result.hpp>
#include <stdexcept>
#include <string>

namespace callgate {

/// The text of a Problem. This base class keeps a string from converting to a Problem, so that an
/// Expected<std::string> can tell its value from its error.
struct ProblemText {
    std::string text;
};

/// An error message for a person, without the program's name and without a full stop.
struct Problem : ProblemText {
    /// For test output.
    template <class Stream>
    friend Stream& operator<<(Stream& out, const Problem& problem) {
        out << problem.text;
        return out;
    }
};

/// A value or a Problem: `return Problem{path + ": is no directory"};`. `Expected<void>` is the result of a
/// check.
template <class T>
using Expected = boost::system::result<T, Problem>;

/// Throws the exception for `value()` of a failed Expected.
[[noreturn]] inline void throw_exception_from_error(const Problem& problem, const boost::source_location&) {
    throw std::runtime_error(problem.text);
}

}  // namespace callgate
