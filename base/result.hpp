// Results of kernel calls: a value, or the errno as an error_code of the system category.
#pragma once

#include <boost/system/error_code.hpp>
#include <boost/system/result.hpp>
#include <cerrno>

namespace callgate {

template <class T>
using Result = boost::system::result<T>;

/// The error_code of an errno number (default: the current one).
[[nodiscard]] inline boost::system::error_code errno_code(int number = errno) {
    return {number, boost::system::system_category()};
}

}  // namespace callgate
