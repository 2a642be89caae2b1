#include "rules/load/expand_walk.hpp"

#include <algorithm>

namespace callgate::rules {

std::optional<std::vector<WalkStep>> split_steps(std::string_view remainder) {
    std::vector<WalkStep> steps;
    while (!remainder.empty()) {
        remainder.remove_prefix(1);
        const std::size_t end = std::min(remainder.find('/'), remainder.size());
        WalkStep step;
        step.text = remainder.substr(0, end);
        remainder.remove_prefix(end);
        step.any_depth = step.text == "**";
        if (!step.any_depth) {
            if (step.text.find("**") != std::string::npos) return std::nullopt;
            Expected<Glob> glob = Glob::compile('/' + step.text, GlobKind::path);
            if (!glob || glob->branches().size() != 1) return std::nullopt;
            step.glob = std::move(*glob);
        }
        steps.push_back(std::move(step));
        if (steps.size() > max_steps) return std::nullopt;
    }
    return steps;
}

Walk::Walk(std::vector<WalkStep> steps) : steps_(std::move(steps)) {
    // A trailing "/**" stays: a match before it is the head of a hierarchy.
    if (!steps_.empty() && steps_.back().any_depth) {
        steps_.pop_back();
        tail_ = "/**";
    }
    for (std::size_t index = 0; index < steps_.size(); ++index)
        if (steps_[index].any_depth) any_depth_ |= bit(index);
}

std::vector<std::string> Walk::remaining(Positions positions) const {
    std::vector<std::string> texts;
    for (std::size_t index = 0; index < steps_.size(); ++index) {
        if ((positions & bit(index)) == 0) continue;
        // The position behind a "**" adds nothing to the "**" itself.
        if (index > 0 && steps_[index - 1].any_depth && (positions & bit(index - 1)) != 0) continue;
        std::string text;
        for (std::size_t at = index; at < steps_.size(); ++at) text += '/' + steps_[at].text;
        texts.push_back(text + tail_);
    }
    return texts;
}

Positions Walk::closure(Positions positions) const {
    for (std::size_t index = 0; index < steps_.size(); ++index)
        if ((positions & bit(index)) != 0 && steps_[index].any_depth) positions |= bit(index + 1);
    return positions;
}

StepNames::StepNames(const Walks& walks) {
    for (std::size_t walk = 0; walk < walks.size(); ++walk) {
        const std::vector<WalkStep>& steps = walks[walk]->steps();
        for (std::size_t index = 0; index < steps.size(); ++index) {
            if (steps[index].any_depth) continue;
            if (const auto literal = steps[index].literal()) {
                add({walk, bit(index)}, literals_[*literal]);
                first_bytes_.set(static_cast<unsigned char>(literal->front()));
            } else {
                const auto known = std::ranges::find(patterns_, steps[index].text, &Pattern::text);
                Pattern& pattern = known != patterns_.end() ? *known : patterns_.emplace_back();
                pattern.text = steps[index].text;
                pattern.glob = &*steps[index].glob;
                add({walk, bit(index)}, pattern.hits);
            }
        }
    }
}

void StepNames::add(StepHit hit, std::vector<StepHit>& to) {
    const auto known = std::ranges::find(to, hit.walk, &StepHit::walk);
    if (known != to.end())
        known->steps |= hit.steps;
    else
        to.push_back(hit);
}

void StepNames::find(const std::string& name, std::vector<StepHit>& hits) {
    hits.clear();
    if (first_bytes_.test(static_cast<unsigned char>(name.front())))
        if (const auto literal = literals_.find(name); literal != literals_.end()) hits = literal->second;
    slashed_.assign(1, '/').append(name);
    for (const Pattern& one : patterns_)
        if (one.glob->remainder_matches(0, slashed_))
            for (const StepHit& hit : one.hits) add(hit, hits);
}

WalkStates::Number WalkStates::number_of(std::vector<Positions> positions) {
    const auto [known, added] = numbers_.emplace(std::move(positions), static_cast<Number>(all_.size()));
    if (added) all_.push_back({known->first, {}});
    return known->second;
}

WalkStates::Number WalkStates::start() {
    std::vector<Positions> first;
    for (const Walk* const walk : walks_) first.push_back(walk->start());
    return number_of(std::move(first));
}

WalkStates::Number WalkStates::otherwise(Number state) {
    if (!all_[state].otherwise) all_[state].otherwise = after(state, {});
    return *all_[state].otherwise;
}

WalkStates::Number WalkStates::after(Number state, const std::vector<StepHit>& hits) {
    std::vector<Positions> next(walks_.size());
    if (!hits.empty()) next = all_[otherwise(state)].positions;
    const auto step = [&](std::size_t walk, Positions named) {
        next[walk] = onward(walk, walks_[walk]->after(positions(state, walk), named));
    };
    for (const StepHit& hit : hits) step(hit.walk, hit.steps);
    for (std::size_t walk = 0; hits.empty() && walk < next.size(); ++walk) step(walk, 0);
    return number_of(std::move(next));
}

}  // namespace callgate::rules
