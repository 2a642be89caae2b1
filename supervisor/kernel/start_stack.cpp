#include "supervisor/kernel/start_stack.hpp"

#include <elf.h>
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

using Word = std::uint64_t;
static_assert(sizeof(void*) == sizeof(Word));

constexpr std::size_t max_words = 1UL << 20;  // beyond what fits: three quarters of _STK_LIM, fs/exec.c
constexpr std::size_t page_size = 4096;

/// The words from the program's stack pointer on, read as far as they are asked for.
class Words {
public:
    Words(pid_t process, Word start) : process_(process), start_(start) {}

    Result<Word> at(std::size_t index) {
        while (index >= words_.size()) {
            if (words_.size() >= max_words) return errno_code(E2BIG);
            const Word from = address(words_.size());
            std::array<Word, page_size / sizeof(Word)> page{};
            const auto some = std::span(page).first((page_size - from % page_size) / sizeof(Word));
            if (auto read = read_memory(process_, from, std::as_writable_bytes(some)); !read)
                return read.error();
            words_.insert(words_.end(), some.begin(), some.end());
        }
        return words_[index];
    }
    [[nodiscard]] Word address(std::size_t index) const { return start_ + index * sizeof(Word); }
    [[nodiscard]] std::span<const Word> range(std::size_t from, std::size_t to) const {
        return std::span(words_).subspan(from, to - from);
    }

private:
    pid_t process_;
    Word start_;
    std::vector<Word> words_;
};

/// Places in the list of words: where the pointers to the environment begin, and where the auxiliary vector
/// behind them ends.
struct Lists {
    std::size_t environment = 0, variables = 0, end = 0;
};

Result<Lists> find_lists(Words& words) {
    const auto count = words.at(0);
    if (!count) return count.error();
    if (*count >= max_words) return errno_code(E2BIG);
    Lists found;
    const auto closing = words.at(*count + 1);
    if (!closing) return closing.error();
    if (*closing != 0) return errno_code(ENOEXEC);
    found.environment = found.end = *count + 2;
    for (;; ++found.end) {
        const auto pointer = words.at(found.end);
        if (!pointer) return pointer.error();
        if (*pointer == 0) break;
    }
    found.variables = found.end - found.environment;
    for (++found.end;; found.end += 2) {
        const auto type = words.at(found.end), value = words.at(found.end + 1);
        if (!type) return type.error();
        if (!value) return value.error();
        if (*type == AT_NULL) break;
    }
    found.end += 2;
    return found;
}

/// /proc/PID/environ: all strings, one behind the other, each with its NUL.
Result<std::string> strings_of(pid_t process) {
    const ReadingCaller reading;
    const UniqueFd file(::open(ProcPath(process, "environ").text, O_RDONLY | O_CLOEXEC));
    if (!file) return errno_code();
    std::string all;
    std::array<char, 16384> piece{};
    for (;;) {
        const ssize_t got = ::read(file.get(), piece.data(), piece.size());
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return errno_code();
        if (got == 0) return all;
        all.append(piece.data(), static_cast<std::size_t>(got));
    }
}

}  // namespace

bool is_variable_of(std::string_view text, std::span<const std::string> names) {
    return std::ranges::find(names, text.substr(0, text.find('='))) != names.end();
}

Result<std::size_t> take_variables(pid_t process, std::uint64_t stack_pointer,
                                   std::span<const std::string> names) {
    Words words(process, stack_pointer);
    const auto lists = find_lists(words);
    if (!lists) return lists.error();
    const auto strings = strings_of(process);
    if (!strings) return strings.error();
    const auto pointers = words.range(lists->environment, lists->environment + lists->variables);
    std::vector<Word> kept;
    std::size_t offset = 0;
    for (const Word pointer : pointers) {
        // The kernel lays the strings in the order of the pointers, without a gap.
        if (offset >= strings->size() || pointer != pointers.front() + offset) return errno_code(ENOEXEC);
        const std::string_view text(strings->c_str() + offset);
        offset += text.size() + 1;
        if (!is_variable_of(text, names)) {
            kept.push_back(pointer);
            continue;
        }
        const std::string nothing(text.size(), '\0');
        if (auto written = write_memory(process, pointer, std::as_bytes(std::span(nothing))); !written)
            return written.error();
    }
    if (offset != strings->size()) return errno_code(ENOEXEC);
    const std::size_t taken = pointers.size() - kept.size();
    if (taken == 0) return taken;
    const auto behind = words.range(lists->environment + lists->variables, lists->end);
    kept.insert(kept.end(), behind.begin(), behind.end());
    kept.resize(kept.size() + taken);
    if (auto written =
            write_memory(process, words.address(lists->environment), std::as_bytes(std::span(kept)));
        !written)
        return written.error();
    return taken;
}

}  // namespace callgate::kernel
