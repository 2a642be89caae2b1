#include "supervisor/calls/files/carried_entries.hpp"
#include "supervisor/calls/files/needs.hpp"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <functional>
#include <string_view>
#include <utility>
#include <vector>

#include "base/directory.hpp"
#include "base/test_switch.hpp"
#include "supervisor/decide/decide.hpp"
#include "supervisor/decide/parties.hpp"

namespace callgate::calls {

namespace {

using rules::Operation;
using rules::Verdict;

constexpr std::size_t max_entries = 10'000;
constexpr int max_depth = 128;

/// An entry of a moved directory, with the name that it would get.
struct CarriedEntry {
    std::string path;
    int holder;  // its directory
    const char* name;
    bool directory;
};

/// Judges every entry of a moved directory by the name it would get.
class CarriedEntryWalk {
public:
    using Judge = std::function<Verdict(const CarriedEntry& entry)>;
    explicit CarriedEntryWalk(Judge judge_one) : judge_one_(std::move(judge_one)) {}

    Verdict judge(UniqueFd directory, const std::string& new_path, int depth = 0) {
        Verdict worst;
        worst.action = rules::Action::allow;
        if (depth > max_depth) return refused_move(EXDEV);
        const Directory entries(::fdopendir(directory.release()));
        if (!entries) return refused_move(EXDEV);
        const int holder = ::dirfd(entries.get());
        while (const dirent* entry = ::readdir(entries.get())) {
            const std::string_view name = entry->d_name;
            if (name == "." || name == "..") continue;
            if (++seen_ > max_entries) return refused_move(EXDEV);
            UniqueFd below(::openat(holder, entry->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
            if (!below && errno != ENOTDIR && errno != ELOOP) return refused_move(EXDEV);
            const CarriedEntry one{new_path + "/" + entry->d_name, holder, entry->d_name, below.valid()};
            worst = stricter(worst, judge_one_(one));
            if (below) worst = stricter(worst, judge(std::move(below), one.path, depth + 1));
            if (worst.action >= rules::Action::deny) return worst;
        }
        return worst;
    }

private:
    const Judge judge_one_;
    std::size_t seen_ = 0;
};

/// The verdict on an entry that is a symbolic link; every other one is allowed.
Verdict judge_link(const rules::RenameCheck& moves, const CarriedEntry& entry) {
    struct stat status {};
    if (!entry.directory && ::fstatat(entry.holder, entry.name, &status, AT_SYMLINK_NOFOLLOW) != 0)
        return refused_move(EXDEV);
    if (S_ISLNK(status.st_mode)) return moves.evaluate_link(entry.path, EXDEV);
    Verdict verdict;
    verdict.action = rules::Action::allow;
    return verdict;
}

/// Whether `name`, relative to the directory, or a directory on the way to it is a symbolic link. A name that
/// cannot be looked at counts as one.
bool leads_through_link(int directory, std::string_view name) {
    UniqueFd holder;
    for (std::size_t begin = 0; begin <= name.size();) {
        const std::size_t end = std::min(name.find('/', begin), name.size());
        const std::string component(name.substr(begin, end - begin));
        UniqueFd below(
            ::openat(holder ? holder.get() : directory, component.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC));
        if (!below) return errno != ENOENT && errno != ENOTDIR;
        struct stat status {};
        if (::fstat(below.get(), &status) != 0 || S_ISLNK(status.st_mode)) return true;
        holder = std::move(below);
        begin = end + 1;
    }
    return false;
}

}  // namespace

CarriedEntries carried_between(const rules::RenameCheck& moves, const rules::StaticGrants& grants,
                               const Place& from, const Place& to) {
    if (!moves.may_carry_in(from.path, to.path)) return CarriedEntries::impossible;
    const bool held_alone =
        check_enabled("carried-in-meanwhile") && grants.allow(Operation::create, from.path + "/any");
    return held_alone ? CarriedEntries::unnoticed : CarriedEntries::noticed;
}

Verdict judge_carried_links(const rules::RenameCheck& moves, const Place& from, const Place& to) {
    Verdict verdict;
    verdict.action = rules::Action::allow;
    const std::vector<rules::LinkNames::Reserved> reserved = moves.reserved_beneath(to.path);
    const bool anywhere = moves.may_carry_links(from.path, to.path);
    if ((reserved.empty() && !anywhere) || !check_enabled("carried-links")) return verdict;
    UniqueFd directory(::openat(from.parent.get(), from.bare().c_str(),
                                (anywhere ? O_RDONLY : O_PATH) | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (!directory) return refused_move(errno);
    const auto found = std::ranges::find_if(
        reserved, [&](const auto& one) { return leads_through_link(directory.get(), one.below); });
    if (found == reserved.end())
        return anywhere ? CarriedEntryWalk([&](const CarriedEntry& one) {
                              return judge_link(moves, one);
                          }).judge(std::move(directory), to.path)
                        : verdict;
    verdict = refused_move(EXDEV);
    verdict.decided_by = rules::DecidedBy::rule;
    verdict.rule = found->rule;
    return verdict;
}

Verdict judge_entries(FileCall& context, const rules::RenameCheck& moves, UniqueFd directory,
                      const std::string& new_path) {
    const auto judge_one = [&](const CarriedEntry& entry) {
        return moves.evaluate_entry(entry.path, entry.directory, context.caller.executable,
                                    party_of(context));
    };
    return CarriedEntryWalk(judge_one).judge(std::move(directory), new_path);
}

Verdict refused_move(int error) { return failure(Operation::create, error); }

}  // namespace callgate::calls
