// What was asked of this machine while a run was prepared, with the answers: whether they still hold.
//
// For a run that is prepared long before its command is known. Whoever made those files may have changed them
// since. The same is asked again, and each answer compared as a whole: nothing rests on a time of change. Of
// names that a ChangeWatch covers its silence is enough.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <string>
#include <string_view>
#include <unordered_map>
#include <variant>
#include <vector>

#include "supervisor/host/change_watch.hpp"

namespace callgate {

/// Used by one thread.
class HostSnapshot {
public:
    /// What readlink(2) said of `path`; "" where it is no link.
    void link(const std::string& path, std::string_view target) { links_.emplace(path, target); }
    /// What read_regular_file said.
    void file(const std::string& path, std::size_t limit, std::variant<std::string, std::string> answer) {
        files_.push_back({path, limit, std::move(answer)});
    }
    /// Which object lies at `path` now, or that there is none. As long as somebody holds that object (a
    /// descriptor, a rule of Landlock) no other has its number.
    void object(const std::string& path);
    /// Something was asked whose answer cannot be asked for again at once (a host's addresses).
    void passing() { lasting_ = false; }

    [[nodiscard]] bool lasting() const { return lasting_; }
    /// From here on `watch` is asked about what it can cover. False: not about every object that others could
    /// remove and make anew, with the same number, unless somebody holds it.
    [[nodiscard]] bool cover(ChangeWatch& watch);
    /// `quiet`: of what is covered nothing has changed since it was still true.
    [[nodiscard]] bool still_true(bool quiet = false) const;

private:
    struct File {
        std::string path;
        std::size_t limit = 0;
        std::variant<std::string, std::string> answer;
    };
    struct Object {
        dev_t device = 0;
        ino_t number = 0;
        mode_t kind = 0;  // 0: there is none
        uid_t owner = 0;
        bool operator==(const Object&) const = default;
    };
    struct Named {
        std::string path;
        Object object;
        bool covered = false;
    };
    static Object look(const std::string& path);

    using Links = std::unordered_map<std::string, std::string>;

    Links links_;
    std::vector<const Links::value_type*> uncovered_links_;
    std::vector<File> files_;
    std::vector<Named> objects_;
    bool lasting_ = true;
};

/// From here on what supervisor/host/host.hpp asks is noted there; null: no more. Main thread only.
void note_facts(HostSnapshot* facts);
/// Null where nothing is noted.
[[nodiscard]] HostSnapshot* noted_facts();

}  // namespace callgate
