#include "supervisor/kernel/argument_list.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "base/unique_fd.hpp"
#include "supervisor/kernel/acting_identity.hpp"
#include "supervisor/kernel/target.hpp"
#include "supervisor/kernel/target_memory.hpp"

namespace callgate::kernel {

namespace {

constexpr std::uint64_t window_size = 4096;
constexpr std::size_t max_argument = 128UL << 10;  // MAX_ARG_STRLEN, with the NUL
constexpr std::size_t max_bytes = 6UL << 20;       // three quarters of _STK_LIM, fs/exec.c

/// Reads each page once: most strings lie one behind the other.
class StringReader {
public:
    explicit StringReader(pid_t thread) : thread_(thread) {}

    Result<std::string> read(std::uint64_t address) {
        std::string text;
        for (;;) {
            if (address < start_ || address >= start_ + length_) {
                if (auto filled = fill(address); !filled) return filled.error();
            }
            const char* const from = window_.data() + (address - start_);
            const auto left = static_cast<std::size_t>(start_ + length_ - address);
            const void* const end = std::memchr(from, 0, left);
            text.append(
                from, end == nullptr ? left : static_cast<std::size_t>(static_cast<const char*>(end) - from));
            if (text.size() >= max_argument) return errno_code(E2BIG);
            if (end != nullptr) return text;
            address += left;
        }
    }

private:
    Result<void> fill(std::uint64_t address) {
        length_ = 0;
        const std::size_t size = window_size - address % window_size;
        auto read = read_memory(thread_, address, std::as_writable_bytes(std::span(window_.data(), size)));
        if (!read) return read;
        start_ = address;
        length_ = size;
        return {};
    }

    pid_t thread_;
    std::array<char, window_size> window_{};
    std::uint64_t start_ = 0;
    std::size_t length_ = 0;
};

/// Passes the contents of /proc/PID/cmdline to `take`, piece by piece, until it has enough.
template <typename Take>
Result<void> read_command_line(pid_t process, Take take) {
    const ReadingCaller reading;
    const UniqueFd file(::open(ProcPath(process, "cmdline").text, O_RDONLY | O_CLOEXEC));
    if (!file) return errno_code();
    std::array<char, 16384> piece{};
    for (;;) {
        const ssize_t got = ::read(file.get(), piece.data(), piece.size());
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return errno_code();
        if (got == 0 || !take(std::string_view(piece.data(), static_cast<std::size_t>(got)))) return {};
    }
}

}  // namespace

Result<std::vector<std::string>> read_arguments(pid_t thread, std::uint64_t address) {
    std::vector<std::string> arguments;
    if (address == 0) return std::vector<std::string>{""};  // execve(2): counts as an empty list
    StringReader strings(thread);
    std::size_t bytes = 0;
    for (;;) {
        std::array<std::uint64_t, window_size / sizeof(std::uint64_t)> pointers{};
        const std::size_t fit =
            std::max<std::size_t>(1, (window_size - address % window_size) / sizeof(std::uint64_t));
        const auto some = std::span(pointers).first(fit);
        if (auto read = read_memory(thread, address, std::as_writable_bytes(some)); !read)
            return read.error();
        for (const std::uint64_t pointer : some) {
            if (pointer == 0) {
                if (arguments.empty()) arguments.emplace_back();
                return arguments;
            }
            auto text = strings.read(pointer);
            if (!text) return text.error();
            bytes += text->size() + 1 + sizeof pointer;
            if (bytes > max_bytes) return errno_code(E2BIG);
            arguments.push_back(std::move(*text));
        }
        address += some.size_bytes();
    }
}

ExpectedArguments::ExpectedArguments(std::span<const std::string> arguments, bool whole) : whole_(whole) {
    Sha256 hash;
    for (const std::string& argument : arguments) {
        hash.add({argument.c_str(), argument.size() + 1});
        length_ += argument.size() + 1;
    }
    digest_ = hash.digest();
}

bool ExpectedArguments::are_those_of(pid_t process) const {
    if (length_ == 0) return true;
    Sha256 hash;
    std::size_t left = length_;
    bool more = false;
    const auto read = read_command_line(process, [&](std::string_view piece) {
        const std::size_t compared = std::min(piece.size(), left);
        hash.add(piece.substr(0, compared));
        left -= compared;
        more = compared < piece.size();
        return !more && (whole_ || left > 0);
    });
    return read && left == 0 && !(whole_ && more) && hash.digest() == digest_;
}

Result<std::vector<std::string>> arguments_of(pid_t process) {
    std::vector<std::string> arguments;
    bool open = false;  // the last string is not finished
    const auto read = read_command_line(process, [&](std::string_view piece) {
        while (!piece.empty()) {
            const std::string_view part = piece.substr(0, piece.find('\0'));
            open ? void(arguments.back() += part) : void(arguments.emplace_back(part));
            open = part.size() == piece.size();
            piece.remove_prefix(std::min(part.size() + 1, piece.size()));
        }
        return true;
    });
    if (!read) return read.error();
    return arguments;
}

}  // namespace callgate::kernel
