#include "supervisor/enforce/seccomp/compiler.hpp"

#include <linux/audit.h>
#include <linux/seccomp.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <optional>
#include <span>
#include <stdexcept>
#include <utility>

#include "base/test_switch.hpp"
#include "supervisor/enforce/seccomp/assembler.hpp"
#include "supervisor/enforce/seccomp/codegen.hpp"

namespace callgate::enforce {
namespace {

constexpr std::uint32_t x32_bit = 0x40000000U;
constexpr std::uint32_t no_call = 0xFFFFFFFFU;

using Place = Assembler::Place;

// Call numbers from `first` up to the next span's, which share one list of decisions.
struct Span {
    std::uint32_t first = 0;
    std::size_t decisions = 0;  // an index
};

// All numbers as spans, and the lists of decisions. Each distinct list is stored once.
class Calls {
public:
    explicit Calls(const FilterSpec& spec) {
        std::vector<const FilterRule*> sorted;
        for (const FilterRule& rule : spec.rules) sorted.push_back(&rule);
        std::stable_sort(sorted.begin(), sorted.end(),
                         [](const FilterRule* a, const FilterRule* b) { return a->call < b->call; });
        std::uint64_t next = 0;  // the first number not covered yet
        for (std::size_t first = 0, last = 0; first < sorted.size(); first = last) {
            const std::uint32_t call = sorted[first]->call;
            while (last < sorted.size() && sorted[last]->call == call) ++last;
            if (call < next) throw std::invalid_argument("a range of calls over another");
            if (call > next) add(next, allowed);
            add(call, index_of(shortest(std::span(sorted).subspan(first, last - first))));
            next = std::uint64_t{std::max(call, sorted[first]->last)} + 1;
        }
        if (next <= spec.newest_call) add(next, allowed);
    }
    [[nodiscard]] std::span<const Span> spans() const { return spans_; }
    [[nodiscard]] const std::vector<Decisions>& decisions() const { return decisions_; }

private:
    static constexpr std::size_t allowed = 0;

    void add(std::uint64_t first, std::size_t decisions) {
        if (spans_.empty() || spans_.back().decisions != decisions)
            spans_.push_back({static_cast<std::uint32_t>(first), decisions});
    }
    std::size_t index_of(Decisions wanted) {
        const auto known = std::find(decisions_.begin(), decisions_.end(), wanted);
        const auto index = static_cast<std::size_t>(known - decisions_.begin());
        if (known == decisions_.end()) decisions_.push_back(std::move(wanted));
        return index;
    }

    std::vector<Span> spans_;
    std::vector<Decisions> decisions_{{}};  // the first list is empty: allowed
};

// Generates the search for a call's decisions: a binary search over stretches. A stretch has one background
// list and few single numbers that differ; these are tested one after the other. That takes half the tests of
// a binary search alone.
class Search {
public:
    Search(Assembler& assembler, const Calls& calls)
        : assembler_(assembler), generator_(assembler), calls_(calls), places_(calls.decisions().size()) {
        for (std::size_t first = 0; first < spans().size(); first = stretches_.back().last)
            stretches_.push_back(stretch(first));
    }
    Place among_all() { return among(stretches_); }

private:
    static constexpr std::size_t max_single = 4;

    struct Stretch {
        std::size_t first = 0, last = 0;  // indices of spans; `last` is excluded
        std::size_t background = 0;       // decisions
    };

    [[nodiscard]] std::span<const Span> spans() const { return calls_.spans(); }
    [[nodiscard]] bool is_single(std::size_t span) const {
        return span + 1 < spans().size() && spans()[span + 1].first == spans()[span].first + 1;
    }
    [[nodiscard]] Stretch stretch_on(std::size_t background, std::size_t first) const {
        std::size_t last = first;
        for (std::size_t single = 0; last < spans().size(); ++last) {
            if (spans()[last].decisions == background) continue;
            if (!is_single(last) || ++single > max_single) break;
        }
        return {first, last, background};
    }
    // The longer of the two possible stretches from here.
    [[nodiscard]] Stretch stretch(std::size_t first) const {
        const Stretch one = stretch_on(spans()[first].decisions, first);
        if (first + 1 == spans().size()) return one;
        const Stretch other = stretch_on(spans()[first + 1].decisions, first);
        return other.last > one.last ? other : one;
    }

    Place decided(std::size_t decisions) {
        const Decisions& cases = calls_.decisions()[decisions];
        // A return has no fixed place, because the assembler copies it.
        if (cases.empty() || cases.front().tests.empty()) return generator_.decide(cases);
        if (!places_[decisions]) places_[decisions] = generator_.decide(cases);
        return *places_[decisions];
    }
    Place within(const Stretch& stretch) {
        Place found = decided(stretch.background);
        for (std::size_t i = stretch.last; i-- > stretch.first;) {
            if (spans()[i].decisions == stretch.background) continue;
            const Place single = decided(spans()[i].decisions);
            found = assembler_.jump(BPF_JEQ, spans()[i].first, single, found);
        }
        return found;
    }
    Place among(std::span<const Stretch> stretches) {
        if (stretches.size() == 1) return within(stretches[0]);
        const std::size_t middle = stretches.size() / 2;
        const Place above = among(stretches.subspan(middle));
        const Place below = among(stretches.first(middle));
        return assembler_.jump(BPF_JGE, spans()[stretches[middle].first].first, above, below);
    }

    Assembler& assembler_;
    CodeGenerator generator_;
    const Calls& calls_;
    std::vector<std::optional<Place>> places_;
    std::vector<Stretch> stretches_;
};

std::uint32_t foreign_architecture() {
    return check_enabled("foreign-architecture") ? SECCOMP_RET_KILL_PROCESS : SECCOMP_RET_ALLOW;
}

// Handles numbers above the newest call. syscall(-1) has the x32 bit set, but is only a call that does not
// exist.
Place beyond_newest(Assembler& assembler, std::uint32_t architecture) {
    const Place unknown = assembler.returns(SECCOMP_RET_ERRNO | ENOSYS);
    if (architecture != AUDIT_ARCH_X86_64) return unknown;
    const Place foreign =
        assembler.jump(BPF_JEQ, no_call, unknown, assembler.returns(foreign_architecture()));
    return assembler.jump(BPF_JSET, x32_bit, foreign, unknown);
}

}  // namespace

std::vector<sock_filter> compile(const FilterSpec& spec) {
    Assembler assembler;
    const Place beyond = beyond_newest(assembler, spec.architecture);
    const Calls calls(spec);
    const Place known = Search(assembler, calls).among_all();
    assembler.jump(BPF_JGT, spec.newest_call, beyond, known);
    const Place native = assembler.statement(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr));
    assembler.jump(BPF_JEQ, spec.architecture, native, assembler.returns(foreign_architecture()));
    assembler.statement(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, arch));
    return assembler.finish();
}

}  // namespace callgate::enforce
