// The grants of a plan by path: a table of path prefixes, built once, read by every worker thread.
//
// An attacker chooses the path that is looked up. Its hash only selects a slot, and the bytes are then
// compared. The table is filled from the plan alone, so no chosen path can make a look-up slow.
#include <algorithm>
#include <atomic>
#include <bit>

#include "base/test_switch.hpp"
#include "rules/plan/plan.hpp"
#include "rules/plan/plan_parts.hpp"

namespace callgate::rules {

namespace {

constexpr OperationSet of_object{Operation::read, Operation::modify, Operation::execute};

// FNV-1a: computing the hash of a path yields the hash of every prefix.
constexpr std::uint64_t hash_start = 14695981039346656037ULL;
constexpr std::uint64_t add_byte(std::uint64_t hash, char byte) {
    return (hash ^ static_cast<unsigned char>(byte)) * 1099511628211ULL;
}

std::uint64_t hash_of(std::string_view text) {
    std::uint64_t hash = hash_start;
    for (const char byte : text) hash = add_byte(hash, byte);
    return hash;
}

}  // namespace

struct StaticGrants::Table {
    struct Entry {
        std::string path;
        bool directory = false;
        OperationSet operations;
        bool lets_execute = false;
    };
    std::vector<Entry> entries;        // sorted: a directory directly before what lies beneath it
    std::vector<std::uint32_t> slots;  // index + 1, 0: free; a power of two of them
    std::size_t longest = 0;
    std::unique_ptr<std::atomic<bool>[]> forgotten;
    mutable std::atomic<bool> grant_moved = false;

    explicit Table(const Plan& plan);
    void insert(std::uint32_t index);
    [[nodiscard]] const Entry* at(std::string_view prefix, std::uint64_t hash, bool above) const;
    /// Visits the grants on `path` (`above` false) and on its ancestors until `enough(entry, above)` is true.
    template <typename Enough>
    bool any(std::string_view path, Enough enough) const;
    template <typename Visit>
    void beneath(std::string_view path, Visit visit) const;
};

StaticGrants::Table::Table(const Plan& plan) {
    for (const Grant& grant : plan.grants) {
        const bool lets_execute = grant.notify_only_execute || grant.operations.contains(Operation::execute);
        entries.push_back(
            {grant.path, grant.directory, grant.operations & planning::held_by_path, lets_execute});
        longest = std::max(longest, grant.path.size());
    }
    std::sort(entries.begin(), entries.end(), [](const Entry& left, const Entry& right) {
        return planning::PathOrder()(left.path, right.path);
    });
    slots.resize(std::bit_ceil(entries.size() * 2 + 1));
    forgotten = std::make_unique<std::atomic<bool>[]>(entries.size());
    for (std::uint32_t index = 0; index < entries.size(); ++index) insert(index);
}

void StaticGrants::Table::insert(std::uint32_t index) {
    std::size_t slot = hash_of(entries[index].path) & (slots.size() - 1);
    while (slots[slot] != 0) slot = (slot + 1) & (slots.size() - 1);
    slots[slot] = index + 1;
}

/// The grant at exactly `prefix`, unless forgotten: for objects strictly beneath it (`above`), or for the
/// object itself.
const StaticGrants::Table::Entry* StaticGrants::Table::at(std::string_view prefix, std::uint64_t hash,
                                                          bool above) const {
    for (std::size_t slot = hash & (slots.size() - 1); slots[slot] != 0;
         slot = (slot + 1) & (slots.size() - 1)) {
        const std::size_t index = slots[slot] - 1;
        const Entry& entry = entries[index];
        if (entry.path != prefix) continue;
        const bool stands = !forgotten[index].load(std::memory_order_acquire);
        return stands && (entry.directory || !above) ? &entry : nullptr;
    }
    return nullptr;
}

template <typename Enough>
bool StaticGrants::Table::any(std::string_view path, Enough enough) const {
    const auto one = [&](std::string_view prefix, std::uint64_t hash, bool above) {
        const Entry* entry = at(prefix, hash, above);
        return entry != nullptr && enough(*entry, above);
    };
    const bool root = path == "/";
    if (one("/", hash_of("/"), !root)) return true;
    if (root) return false;
    std::uint64_t hash = add_byte(hash_start, '/');
    for (std::size_t index = 1; index < path.size() && index <= longest; ++index) {
        if (path[index] == '/' && one(path.substr(0, index), hash, true)) return true;
        hash = add_byte(hash, path[index]);
    }
    return path.size() <= longest && one(path, hash, false);
}

template <typename Visit>
void StaticGrants::Table::beneath(std::string_view path, Visit visit) const {
    const auto first = std::lower_bound(entries.begin(), entries.end(), path,
                                        [](const Entry& entry, std::string_view wanted) {
                                            return planning::PathOrder()(entry.path, wanted);
                                        });
    for (auto entry = first; entry != entries.end() && at_or_beneath(entry->path, path); ++entry)
        visit(static_cast<std::size_t>(entry - entries.begin()));
}

StaticGrants::StaticGrants(const Plan& plan, const StaticGrants* outer)
    : table_(std::make_unique<const Table>(plan)), outer_(outer) {}
StaticGrants::~StaticGrants() = default;

bool StaticGrants::allow(OperationSet operations, std::string_view path) const {
    if (operations.empty() || !planning::held_by_path.contains_all(operations) || !path.starts_with('/'))
        return false;
    if (outer_ != nullptr && !outer_->allow(operations, path)) return false;
    OperationSet missing = operations;
    return table_->any(path, [&missing](const Table::Entry& entry, bool above) {
        missing = missing - (above ? entry.operations : entry.operations & of_object);
        return missing.empty();
    });
}

bool StaticGrants::let_execute(std::string_view path) const {
    if (!path.starts_with('/') || (outer_ != nullptr && !outer_->let_execute(path))) return false;
    return table_->any(path, [](const Table::Entry& entry, bool) { return entry.lets_execute; });
}

void StaticGrants::forget(std::string_view path, Departure how) const {
    if (!check_enabled("forgotten-grants")) return;
    if (outer_ != nullptr) outer_->forget(path, how);
    table_->beneath(path, [this, how](std::size_t index) {
        const bool first = !table_->forgotten[index].exchange(true, std::memory_order_acq_rel);
        // A moved file takes along only permissions on that very file.
        if (first && how == Departure::moved && table_->entries[index].directory)
            table_->grant_moved.store(true, std::memory_order_release);
    });
}

bool StaticGrants::may_carry(std::string_view path) const {
    if (outer_ != nullptr && outer_->may_carry(path)) return true;
    // The new place of a moved grant is not tracked: after the first move, any object may carry one.
    if (table_->grant_moved.load(std::memory_order_acquire)) return true;
    bool found = false;
    table_->beneath(path, [&found](std::size_t) { found = true; });
    return found;
}

}  // namespace callgate::rules
