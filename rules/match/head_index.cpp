#include "rules/match/head_index.hpp"

#include <bit>

namespace callgate::rules {

void HeadIndex::add(std::uint32_t rule, const Glob& glob) {
    const std::vector<Glob::Branch>& branches = glob.branches();
    for (std::uint32_t index = 0; index < branches.size(); ++index) {
        const Glob::Branch& branch = branches[index];
        const Entry entry{rule, index, &glob};
        if (glob.kind() == GlobKind::text && !branch.literal) {
            // `matches` tests every branch itself.
            if (texts_.empty() || texts_.back().glob != &glob) texts_.push_back(entry);
        } else {
            pending_.push_back({branch.head, branch.literal, entry});
        }
    }
}

/// Every head gets a number. Its branches are then stored together, in the order of `add`.
void HeadIndex::freeze() {
    places_.assign(std::bit_ceil(pending_.size() * 2 + 2), 0);
    heads_.reserve(pending_.size());
    std::vector<std::uint32_t> number;
    number.reserve(pending_.size());
    for (const Pending& one : pending_) {
        number.push_back(number_of(one.head));
        // These are counts until all heads are known.
        Head& head = heads_[number.back()];
        ++head.end;
        if (one.literal) ++head.beneath;
    }
    std::uint32_t next = 0;
    for (Head& head : heads_) {
        head.exact = next;
        next += head.end;
        head.end = head.beneath += head.exact;
    }
    entries_.resize(pending_.size());
    std::vector<std::uint32_t> literals(heads_.size(), 0);
    for (std::size_t index = 0; index < pending_.size(); ++index) {
        Head& head = heads_[number[index]];
        const bool literal = pending_[index].literal;
        entries_[literal ? head.exact + literals[number[index]]++ : head.end++] = pending_[index].entry;
    }
    pending_ = {};
}

/// The head's number; a new head gets the next one.
std::uint32_t HeadIndex::number_of(std::string_view head) {
    const std::uint64_t hash = hash_of(head);
    for (std::size_t place = first_place(hash);; place = (place + 1) & (places_.size() - 1)) {
        std::uint32_t& number = places_[place];
        if (number == 0) {
            heads_.push_back({hash, head, 0, 0, 0});
            number = static_cast<std::uint32_t>(heads_.size());
        }
        const Head& known = heads_[number - 1];
        if (known.hash == hash && known.text == head) return number - 1;
    }
}

const HeadIndex::Head* HeadIndex::find(std::uint64_t hash, std::string_view head) const {
    for (std::size_t place = first_place(hash);; place = (place + 1) & (places_.size() - 1)) {
        if (places_[place] == 0) return nullptr;
        const Head& known = heads_[places_[place] - 1];
        if (known.hash == hash && known.text == head) return &known;
    }
}

}  // namespace callgate::rules
