#include "supervisor/calls/create_file.hpp"

#include "base/test_switch.hpp"

namespace callgate::calls {

rules::OperationSet create_file(std::string_view path) {
    rules::OperationSet set = rules::Operation::create;
    if ((path.ends_with("/.git") || path.ends_with("/.jj/repo")) && check_enabled("git-kind"))
        set |= rules::Operation::modify;
    return set;
}

}  // namespace callgate::calls
