#include "supervisor/calls/arguments.hpp"

#include <fcntl.h>

#include "supervisor/kernel/target_memory.hpp"

namespace callgate::calls {

Result<GivenPath> read_path_argument(Call& context, const PathArgument& argument, std::string& text,
                                     std::string& directory, EmptyPath empty, TakeBase take) {
    GivenPath given;
    given.text = &text;
    if (!context.needs.nested.empty()) given.tree = context.needs.guardian;
    const std::uint64_t address = context.word(argument.path);
    if (address == 0 && empty == EmptyPath::or_null) {
        text.clear();
    } else if (const auto read = kernel::read_path(context.thread(), address, text); !read) {
        return read.error();
    }
    if (text.empty() && empty == EmptyPath::refuse) return errno_code(ENOENT);
    if (!text.empty() && text.front() == '/' && take == TakeBase::if_relative) return given;
    const int number = argument.directory < 0 ? AT_FDCWD : context.integer(argument.directory);
    auto base = number == AT_FDCWD ? kernel::working_directory(context.thread())
                                   : kernel::descriptor_pin(context.thread(), number);
    if (!base) return base.error();
    given.base = std::move(*base);
    if (number != AT_FDCWD) given.directory_fd = number;
    given.directory = &directory;
    return given;
}

audit::CallInput input_of(const GivenPath& given) {
    audit::CallInput input;
    input.path = *given.text;
    input.directory_fd = given.directory_fd;
    if (given.directory != nullptr) {
        bool unlinked = false;
        if (auto path = directory_path(given.base.get(), unlinked)) *given.directory = std::move(*path);
        input.working_directory = *given.directory;
    }
    return input;
}

void pass_errno(Call& context, int error, bool may_continue) {
    const bool may_change = error == ENOENT || error == EEXIST || error == ENOTDIR;
    if (may_continue && !may_change) {
        context.call.let_continue();
    } else {
        context.fail(error);
    }
}

}  // namespace callgate::calls
