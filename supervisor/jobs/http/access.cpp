#include "supervisor/jobs/http/access.hpp"

#include <sodium/utils.h>

#include "base/words.hpp"

namespace callgate::jobs::http {

namespace {

Sha256::Digest digest_of(std::string_view text) {
    Sha256 sum;
    sum.add(text);
    return sum.digest();
}

}  // namespace

Access::Access(const FrontSettings& settings)
    : needs_token_(!settings.token.empty()),
      no_browsers_(settings.no_browsers),
      token_(digest_of(settings.token)) {}

bool Access::bears_token(const Head& head, std::string_view& path) const {
    if (!needs_token_) return true;
    const auto right = [this](std::string_view token) {
        const Sha256::Digest other = digest_of(token);
        return sodium_memcmp(other.data(), token_.data(), token_.size()) == 0;
    };
    constexpr std::string_view scheme = "bearer ";  // in any letter case (RFC 9110, 11.1)
    const auto field = head.field("authorization");
    if (field && lower_case(field->substr(0, scheme.size())) == scheme)
        return right(field->substr(scheme.size()));
    if (const auto key = head.field("x-api-key"); key && right(*key)) return true;
    const std::size_t end = path.find('/', 1);
    if (end == std::string_view::npos || !right(path.substr(1, end - 1))) return false;
    path.remove_prefix(end);
    return true;
}

std::optional<Refused> Access::check_host(const Head& head) const {
    std::string_view host = head.field("host").value_or("localhost");
    if (!no_browsers_ || host.starts_with('[')) return std::nullopt;
    host = host.substr(0, host.find(':'));
    if (host == "localhost" || host.find_first_not_of("0123456789.") == std::string_view::npos)
        return std::nullopt;
    return Refused{421, "without a token, Host must be localhost or an address"};
}

std::optional<Refused> Access::check_type(const Head& head) const {
    std::string_view type = head.field("content-type").value_or("");
    type = type.substr(0, type.find_first_of("; \t"));
    const bool unusual =
        head.field("x-api-key") || head.field("x-request-id") || head.field("e2b-sandbox-id");
    if (!no_browsers_ || type == "application/json" || type == "application/connect+json" || unusual)
        return std::nullopt;
    return Refused{415,
                   "expected Content-Type: application/json, or a header X-API-Key, X-Request-ID or "
                   "E2b-Sandbox-Id"};
}

}  // namespace callgate::jobs::http
