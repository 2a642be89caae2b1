// How functions fail: the two kinds of results, for the kernel's errors and for errors that a person reads.
//
// Neither is ignored (the type is [[nodiscard]]). Exceptions are for wrong use at start-up only.
#pragma once

#include <boost/assert/source_location.hpp>
#include <boost/system/error_code.hpp>
#include <boost/system/result.hpp>
#include <cerrno>
#include <stdexcept>
#include <string>

namespace callgate {

/// A value, or the errno as an error_code of the system category.
template <class T>
using Result = boost::system::result<T>;

/// The error_code of an errno number (default: the current one).
[[nodiscard]] inline boost::system::error_code errno_code(int number = errno) {
    return {number, boost::system::system_category()};
}

/// What went wrong, as a person reads it: without the program's name and without a full stop.
struct Problem {
    std::string text;

    /// For test output.
    template <class Stream>
    friend Stream& operator<<(Stream& out, const Problem& problem) {
        out << problem.text;
        return out;
    }
};

/// A value, or what went wrong: `return Problem{path + ": is no directory"};`. `Expected<void>` is a check.
template <class T>
using Expected = boost::system::result<T, Problem>;

/// What `value()` of a failed Expected throws.
[[noreturn]] inline void throw_exception_from_error(const Problem& problem, const boost::source_location&) {
    throw std::runtime_error(problem.text);
}

}  // namespace callgate
