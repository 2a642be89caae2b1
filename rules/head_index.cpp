#include "rules/head_index.hpp"

#include <bit>

namespace callgate::rules {

void HeadIndex::add(std::uint32_t rule, const Glob& glob) {
    const std::vector<Glob::Branch>& branches = glob.branches();
    for (std::uint32_t index = 0; index < branches.size(); ++index) {
        const Glob::Branch& branch = branches[index];
        const Entry entry{rule, index, &glob};
        if (glob.kind() == GlobKind::text && !branch.literal) {
            // `matches` looks at every branch by itself.
            if (texts_.empty() || texts_.back().glob != &glob) texts_.push_back(entry);
        } else {
            pending_.push_back({branch.head, branch.literal, entry});
        }
    }
}

/// Every head gets a slot; its branches then come to stand together, in the order in which they were added.
void HeadIndex::freeze() {
    slots_.assign(std::bit_ceil(pending_.size() * 2 + 2), Slot{});
    std::vector<std::uint32_t> slot_of;
    slot_of.reserve(pending_.size());
    for (const Pending& one : pending_) {
        const std::size_t place = place_of(one.head);
        slot_of.push_back(static_cast<std::uint32_t>(place));
        // Counts, until all are known.
        ++slots_[place].end;
        if (one.literal) ++slots_[place].beneath;
    }
    std::uint32_t next = 0;
    for (Slot& slot : slots_) {
        if (slot.end == 0) continue;
        slot.exact = next;
        next += slot.end;
        slot.end = slot.beneath += slot.exact;
    }
    entries_.resize(pending_.size());
    std::vector<std::uint32_t> literals(slots_.size(), 0);
    for (std::size_t index = 0; index < pending_.size(); ++index) {
        Slot& slot = slots_[slot_of[index]];
        const bool literal = pending_[index].literal;
        entries_[literal ? slot.exact + literals[slot_of[index]]++ : slot.end++] = pending_[index].entry;
    }
    pending_.clear();
    pending_.shrink_to_fit();
}

/// The place of the head's slot, a free one where it is new.
std::size_t HeadIndex::place_of(std::string_view head) {
    const std::uint64_t hash = hash_of(head);
    std::size_t place = first_place(hash);
    while (slots_[place].end != 0 && (slots_[place].hash != hash || slots_[place].head != head))
        place = (place + 1) & (slots_.size() - 1);
    slots_[place].hash = hash;
    slots_[place].head = head;
    return place;
}

const HeadIndex::Slot* HeadIndex::find(std::uint64_t hash, std::string_view head) const {
    for (std::size_t place = first_place(hash);; place = (place + 1) & (slots_.size() - 1)) {
        const Slot& slot = slots_[place];
        if (slot.end == 0) return nullptr;
        if (slot.hash == hash && slot.head == head) return &slot;
    }
}

}  // namespace callgate::rules
