#include "rules/model/rule.hpp"

#include <algorithm>

namespace callgate::rules {

bool Cidr::contains(const IpAddress& other) const {
    if (other.v6 != address.v6) return false;
    const int bits = std::clamp(prefix, 0, address.v6 ? 128 : 32);
    const auto whole = static_cast<std::size_t>(bits / 8);
    if (!std::equal(address.bytes.begin(), address.bytes.begin() + bits / 8, other.bytes.begin()))
        return false;
    const int rest = bits % 8;
    if (rest == 0) return true;
    const int difference = address.bytes[whole] ^ other.bytes[whole];
    return (difference >> (8 - rest)) == 0;
}

bool HostPattern::matches(std::string_view name) const {
    if (!suffix) return name == text;
    const std::string_view ending = std::string_view(text).substr(1);  // ".suffix"
    return name.size() > ending.size() && name.ends_with(ending);
}

}  // namespace callgate::rules
