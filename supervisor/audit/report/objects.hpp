// The objects of calls, with the number of times that each was allowed and refused. Beyond the bound a path
// counts for its directory, so the tree stays right at every level that it shows.
#pragma once

#include <cstdint>
#include <map>
#include <tuple>
#include <vector>

#include "rules/model/operation.hpp"
#include "supervisor/audit/report/outcome.hpp"
#include "supervisor/audit/report/strings.hpp"

namespace callgate::audit::report {

/// `beneath`: a directory that stands for the unlisted objects in it. `others`: all other objects.
enum class ObjectKind : std::uint8_t { path, socket, name, host, beneath, others };

struct Object {
    static constexpr std::uint32_t none = UINT32_MAX;
    std::uint32_t text = none;
    std::uint32_t second = none;  // rename, link: the new name
    std::uint32_t host = none;    // of an internet address
    ObjectKind kind = ObjectKind::others;
    rules::OperationSet operations{};
    Tally calls{};
};

class Objects {
public:
    static constexpr std::size_t most = 100'000;

    explicit Objects(Strings& strings);

    /// Counts the call, and returns the number of its object.
    std::uint32_t add(const Entry& entry, Outcome outcome);
    [[nodiscard]] const std::vector<Object>& all() const { return objects_; }
    /// The number of calls whose object is not listed by itself.
    [[nodiscard]] std::uint64_t rolled_up() const { return rolled_up_; }

private:
    using Key = std::tuple<std::uint32_t, std::uint32_t, std::uint32_t, ObjectKind>;
    std::uint32_t find_or_add(const Entry& entry);
    std::uint32_t roll_up(std::string_view path);
    /// Returns `others` if there is no room.
    std::uint32_t insert(const Object& object, std::size_t limit);

    Strings* strings_;
    std::map<Key, std::uint32_t> numbers_;
    std::vector<Object> objects_;  // the first one stands for all unlisted objects
    std::uint64_t rolled_up_ = 0;
};

}  // namespace callgate::audit::report
