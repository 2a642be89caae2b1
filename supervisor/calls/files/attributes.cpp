// setxattr, removexattr and their relatives, file_setattr, and the ioctls that set a file's flags: attributes
// of an object that exists.
//
// An attacker controls path, descriptor number, the attribute's name and value, all copied once, before
// anything is judged; access control lists are such values. The object is pinned, judged as `metadata` by its
// own path and changed through that pin (change.hpp). The acting thread has no right that the caller lacks:
// the kernel refuses trusted and security attributes to it as to the caller.
#include <linux/fs.h>
#include <linux/limits.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <span>
#include <vector>

#include "base/test_switch.hpp"
#include "supervisor/calls/files/change.hpp"
#include "supervisor/calls/files/needs.hpp"
#include "supervisor/calls/handlers.hpp"
#include "supervisor/kernel/target_memory.hpp"

namespace callgate::calls {

namespace {

constexpr int known_flags = AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH;
constexpr std::size_t page = 4096;

/// How the call names the object.
enum class By : std::uint8_t { descriptor, path };

/// Whether the kernel looks at name and value before it looks at path or descriptor. Linux 6.13 does, and
/// earlier ones do not; later updates of 6.12 changed it half-way. So the kernel is asked, with both wrong.
bool arguments_first(By by, bool removes) {
    constexpr long wrong_flags = 1L << 20;
    const auto first = [](long number, long object) {
        ::syscall(number, object, "", nullptr, std::size_t{0}, wrong_flags);
        return errno != EBADF && errno != EFAULT;  // of the object; of the attribute it is EINVAL or ERANGE
    };
    static const std::array<bool, 4> known{first(SYS_setxattr, 0), first(SYS_removexattr, 0),
                                           first(SYS_fsetxattr, -1), first(SYS_fremovexattr, -1)};
    return known.at((by == By::descriptor ? 2U : 0U) + (removes ? 1U : 0U));
}

/// Name and value of an attribute, and what is to be done.
class Attribute {
public:
    struct Source {
        std::uint64_t name = 0, value = 0;
        std::size_t size = 0;
        int flags = 0;
        bool removes = false;
    };

    explicit Attribute(const Source& source) : source_(source) {}

    /// fs/xattr.c, setxattr_copy: copies name and value. 0, or the errno.
    int read(FileCall& context) {
        if ((source_.flags & ~(XATTR_CREATE | XATTR_REPLACE)) != 0) return EINVAL;
        const auto name = kernel::read_string(context.thread(), source_.name, XATTR_NAME_MAX + 1, name_);
        if (!name) return name.error().value() == ENAMETOOLONG ? ERANGE : name.error().value();
        if (name_.empty()) return ERANGE;
        shown_ = name_;
        if (source_.size > XATTR_SIZE_MAX) return E2BIG;
        value_.resize(source_.size);
        const auto value = kernel::read_memory(context.thread(), source_.value, value_);
        return value ? 0 : value.error().value();
    }

    [[nodiscard]] int change(const Object& object) const {
        const kernel::PinPath pin(object.pin.get());
        if (source_.removes) return ::removexattr(pin.text, name_.c_str());
        return ::setxattr(pin.text, name_.c_str(), value_.data(), value_.size(), source_.flags);
    }

    /// For the record.
    std::string_view* shown() { return &shown_; }

private:
    Source source_;
    std::string name_;
    std::string_view shown_;
    std::vector<std::byte> value_;
};

/// Which object is meant: that of a path, or a descriptor's own.
struct Target {
    bool descriptor = false;
    int number = -1;
    int flags = 0;  // AT_*
};

/// AT_EMPTY_PATH without a path is the descriptor (fs/namei.c, getname_maybe_null).
Result<Target> target_of(FileCall& context, int flags) {
    const PathArgument& path = context.entry.first;
    if (path.path < 0) return Target{true, context.integer(0), 0};
    Target target{false, path.directory < 0 ? AT_FDCWD : context.integer(path.directory), flags};
    if ((flags & AT_EMPTY_PATH) == 0) return target;
    // The working directory itself: removexattrat alone takes AT_FDCWD for a number, which is not open.
    if (target.number == AT_FDCWD && context.entry.name != "removexattrat") return target;
    const std::uint64_t address = context.word(path.path);
    if (address == 0) {
        target.descriptor = true;
    } else {
        const auto first = kernel::read_object<char>(context.thread(), address);
        if (!first) return first.error();
        target.descriptor = *first == 0;
    }
    return target;
}

template <class Change, class Check>
void change_target(FileCall& context, int flags, Change change, Check check,
                   std::string_view* detail = nullptr) {
    const auto target = target_of(context, flags);
    if (!target) return context.fail(target.error().value());
    if (target->descriptor) {
        return change_descriptor(context, target->number, change, check, detail);
    }
    const EmptyPath empty = (flags & AT_EMPTY_PATH) != 0 ? EmptyPath::or_null : EmptyPath::refuse;
    change_object(context, follow_of(flags), empty, change, check, detail);
}

void change_attribute(FileCall& context, const Attribute::Source& source, int flags) {
    Attribute attribute(source);
    const bool first =
        arguments_first(context.entry.first.path < 0 ? By::descriptor : By::path, source.removes);
    if (first) {
        if (const int wrong = attribute.read(context)) return context.fail(wrong);
    }
    change_target(
        context, flags, [&](const Object& object) { return attribute.change(object); },
        [&](const Object&) { return first ? 0 : attribute.read(context); }, attribute.shown());
}

/// lsetxattr, lremovexattr.
int link_flags(const FileCall& context) {
    return context.entry.name.front() == 'l' ? AT_SYMLINK_NOFOLLOW : 0;
}

/// The ioctls need a descriptor that is open, for whatever access.
UniqueFd opened_again(const Object& object) {
    constexpr int flags = O_NONBLOCK | O_NOCTTY | O_CLOEXEC;
    const kernel::PinPath pin(object.pin.get());
    UniqueFd opened(::open(pin.text, O_RDONLY | flags));
    if (!opened && errno == EACCES && !object.directory()) opened.reset(::open(pin.text, O_WRONLY | flags));
    return opened;
}

/// Whether these flags give a directory names of one case. Rules tell names apart by their bytes: with
/// `.GIT/CONFIG` a run would make a `.git/config` there.
bool joins_cases(const Object& object, unsigned wanted) {
    if ((wanted & FS_CASEFOLD_FL) == 0 || !check_enabled("letter-case-flag")) return false;
    const UniqueFd opened = opened_again(object);
    unsigned now = 0;
    return !opened || ::ioctl(opened.get(), FS_IOC_GETFLAGS, &now) != 0 || (now & FS_CASEFOLD_FL) == 0;
}

/// A struct of which the caller may know more or less than the kernel (copy_struct_from_user).
struct VersionedStruct {
    std::array<std::byte, page> bytes{};
    std::size_t size = 0;

    int read(FileCall& context, std::uint64_t address) {
        const auto copied = kernel::read_memory(context.thread(), address, std::span(bytes.data(), size));
        return copied ? 0 : copied.error().value();
    }
};

}  // namespace

void handle_setxattr(FileCall& context) {
    const Attribute::Source source{context.word(1), context.word(2), context.word(3), context.integer(4),
                                   false};
    change_attribute(context, source, link_flags(context));
}

void handle_removexattr(FileCall& context) {
    change_attribute(context, {context.word(1), 0, 0, 0, true}, link_flags(context));
}

void handle_setxattrat(FileCall& context) {
    struct Arguments {  // struct xattr_args, Linux 6.13
        std::uint64_t value;
        std::uint32_t size, flags;
    };
    if (!kernel_has(context.entry)) return context.fail(ENOSYS);
    VersionedStruct given;
    given.size = context.word(5);
    if (given.size < sizeof(Arguments)) return context.fail(EINVAL);
    if (given.size > page) return context.fail(E2BIG);
    if (const int wrong = given.read(context, context.word(4))) return context.fail(wrong);
    const auto known = given.bytes.begin() + sizeof(Arguments);
    if (std::any_of(known, given.bytes.end(), [](std::byte one) { return one != std::byte{0}; })) {
        return context.fail(E2BIG);
    }
    Arguments arguments{};
    std::memcpy(&arguments, given.bytes.data(), sizeof arguments);
    const int flags = context.integer(context.entry.flags);
    if ((flags & ~known_flags) != 0) return context.fail(EINVAL);
    change_attribute(
        context, {context.word(3), arguments.value, arguments.size, static_cast<int>(arguments.flags), false},
        flags);
}

void handle_removexattrat(FileCall& context) {
    if (!kernel_has(context.entry)) return context.fail(ENOSYS);
    const int flags = context.integer(context.entry.flags);
    if ((flags & ~known_flags) != 0) return context.fail(EINVAL);
    change_attribute(context, {context.word(3), 0, 0, 0, true}, flags);
}

void handle_file_setattr(FileCall& context) {
    const auto number = static_cast<long>(context.entry.number);
    constexpr std::size_t oldest_size = 24;  // FILE_ATTR_SIZE_VER0
    if (!kernel_has(context.entry)) return context.fail(ENOSYS);
    const int flags = context.integer(context.entry.flags);
    if ((flags & ~known_flags) != 0) return context.fail(EINVAL);
    VersionedStruct given;
    given.size = context.word(3);
    if (given.size > page) return context.fail(E2BIG);
    if (given.size < oldest_size) return context.fail(EINVAL);
    if (const int wrong = given.read(context, context.word(2))) return context.fail(wrong);
    // The kernel judges the struct itself: of no descriptor it says EBADF once everything before was in
    // order.
    ::syscall(number, -1, "x", given.bytes.data(), given.size, 0);
    if (errno != EBADF) return context.fail(errno);
    change_target(
        context, flags,
        [&](const Object& object) {
            return static_cast<int>(::syscall(number, AT_FDCWD, kernel::PinPath(object.pin.get()).text,
                                              given.bytes.data(), given.size, 0));
        },
        NothingToCheck{});
}

void handle_ioctl(FileCall& context) {
    const auto request = static_cast<std::uint32_t>(context.word(1));
    if (request == TIOCGPTPEER) return handle_terminal_peer(context);
    const bool extended = request == FS_IOC_FSSETXATTR;
    // FS_IOC_SETFLAGS is said to take a long; the kernel reads an int.
    alignas(8) std::array<std::byte, sizeof(fsxattr)> value{};
    const std::size_t size = extended ? sizeof(fsxattr) : sizeof(int);
    std::string_view detail = extended ? "FS_IOC_FSSETXATTR" : "FS_IOC_SETFLAGS";
    change_descriptor(
        context, context.integer(0),
        [&](const Object& object) {
            const UniqueFd opened = opened_again(object);
            return opened ? ::ioctl(opened.get(), request, value.data()) : -1;
        },
        [&](const Object& object) {
            const auto read =
                kernel::read_memory(context.thread(), context.word(2), std::span(value.data(), size));
            if (!read) return read.error().value();
            // Only these have such flags. A driver may mean something else by this number; none that is known
            // does.
            if (!S_ISREG(object.status.st_mode) && !object.directory()) return ENOTTY;
            unsigned flags = 0;
            if (!extended) std::memcpy(&flags, value.data(), sizeof flags);
            return joins_cases(object, flags) ? EOPNOTSUPP : 0;
        },
        &detail);
}

}  // namespace callgate::calls
