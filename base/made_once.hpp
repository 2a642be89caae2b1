// A value that is made when it is first requested, by any thread.
#pragma once

#include <atomic>
#include <memory>

namespace callgate {

/// Any thread may call `get`. If several threads call it at once, each makes a value and one value is kept:
/// `make` must be pure.
template <typename Value>
class MadeOnce {
public:
    MadeOnce() = default;
    MadeOnce(const MadeOnce&) = delete;
    MadeOnce& operator=(const MadeOnce&) = delete;
    ~MadeOnce() { delete made_.load(std::memory_order_acquire); }

    template <typename Make>
    [[nodiscard]] const Value& get(Make make) const {
        if (const Value* const known = made_.load(std::memory_order_acquire)) return *known;
        auto mine = std::make_unique<const Value>(make());
        const Value* kept = nullptr;
        if (!made_.compare_exchange_strong(kept, mine.get(), std::memory_order_acq_rel)) return *kept;
        return *mine.release();
    }

private:
    mutable std::atomic<const Value*> made_ = nullptr;
};

}  // namespace callgate
