#include "supervisor/calls/arguments.hpp"

#include <fcntl.h>

#include "supervisor/kernel/target_memory.hpp"

namespace callgate::calls {

Result<GivenPath> read_path_argument(Call& context, const PathArgument& argument, std::string& text,
                                     std::string& directory, EmptyPath empty, TakeBase take) {
    GivenPath given;
    given.text = &text;
    directory.clear();
    if (!context.needs.nested.empty()) given.tree = context.needs.guardian;
    const std::uint64_t address = context.word(argument.path);
    if (address == 0 && empty == EmptyPath::or_null) {
        text.clear();
    } else if (const auto read = kernel::read_path(context.thread(), address, text); !read) {
        return read.error();
    }
    if (text.empty() && empty == EmptyPath::refuse) return errno_code(ENOENT);
    if (const auto taken = take_base(context, argument, given, directory, take); !taken) return taken.error();
    return given;
}

Result<void> take_base(Call& context, const PathArgument& argument, GivenPath& given, std::string& directory,
                       TakeBase take) {
    if (take == TakeBase::later || (take == TakeBase::if_relative && given.text->starts_with('/'))) return {};
    const int number = directory_of(context, argument);
    auto base = number == AT_FDCWD ? kernel::working_directory(context.thread())
                                   : kernel::descriptor_pin(context.thread(), number);
    if (!base) return base.error();
    given.base = std::move(*base);
    if (number != AT_FDCWD) given.directory_fd = number;
    given.directory = &directory;
    return {};
}

audit::CallInput input_of(const GivenPath& given, std::string_view object) {
    audit::CallInput input;
    input.path = *given.text;
    input.directory_fd = given.directory_fd;
    if (given.directory != nullptr) {
        const std::size_t length = given.directory->size();
        if (length == 0 || !object.starts_with(*given.directory) ||
            object.substr(length) != '/' + *given.text) {
            auto path = directory_path(given.base.get());
            *given.directory = path ? std::move(*path) : std::string();
        }
        input.working_directory = *given.directory;
    }
    return input;
}

audit::CallInput input_of(const GivenPath& given, const Place& place) {
    if (given.directory != nullptr && *given.text == place.leaf && !place.special && !place.trailing_slash)
        given.directory->assign(place.path, 0, place.path.size() - place.leaf.size() - 1);
    return input_of(given, place.path);
}

void pass_errno(Call& context, int error, bool may_continue) {
    const bool may_change = error == ENOENT || error == EEXIST || error == ENOTDIR || error == EISDIR ||
                            error == ELOOP || error == EXDEV;
    if (may_continue && !may_change && context.call.may_continue()) {
        context.call.let_continue();
    } else {
        context.fail(error);
    }
}

}  // namespace callgate::calls
