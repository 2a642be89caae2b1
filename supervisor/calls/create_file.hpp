// The operations of a call that makes a new name.
#pragma once

#include <string_view>

#include "rules/model/operation.hpp"

namespace callgate::calls {

/// The operations of making `path` as anything but a directory. A `.git` that is no directory names another
/// repository, and git runs that one's hooks (gitrepository-layout(5)). So does `.jj/repo`. Such an object
/// counts as a changed repository: a rule on `modify` denies it, and still lets a directory be made. The
/// caller chooses the kind. It is the call itself (mkdir), or the status of the judged object.
[[nodiscard]] rules::OperationSet create_file(std::string_view path);

}  // namespace callgate::calls
