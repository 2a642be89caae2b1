#include "rules/load/shipped.hpp"

#include <algorithm>

namespace callgate::rules {

const ShippedProfile* find_shipped_profile(std::string_view name) {
    const std::span<const ShippedProfile> all = shipped_profiles();
    const auto found = std::find_if(all.begin(), all.end(),
                                    [name](const ShippedProfile& profile) { return profile.name == name; });
    return found == all.end() ? nullptr : &*found;
}

}  // namespace callgate::rules
