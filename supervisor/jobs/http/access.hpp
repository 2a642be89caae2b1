// Decides by the head alone who may ask, so that no byte of a stranger's body is kept.
//
// The sender controls the whole head, and may send any number of guesses. Tokens are compared by their
// digests, in a time that does not depend on where they differ.
#pragma once

#include <optional>
#include <string_view>

#include "base/sha256.hpp"
#include "supervisor/jobs/http/front.hpp"
#include "supervisor/jobs/http/request.hpp"

namespace callgate::jobs::http {

class Access {
public:
    explicit Access(const FrontSettings& settings);

    /// Whether the request bears the token. A token that is the first part of the path is taken off it.
    [[nodiscard]] bool bears_token(const Head& head, std::string_view& path) const;
    /// Refuses a host that a page in a browser could have given this machine's address.
    [[nodiscard]] std::optional<Refused> check_host(const Head& head) const;
    /// Refuses a body that a page may send to any host. A page sends no header of an unusual name without
    /// asking this service, which answers no such question.
    [[nodiscard]] std::optional<Refused> check_type(const Head& head) const;

private:
    bool needs_token_, no_browsers_;
    Sha256::Digest token_;
};

}  // namespace callgate::jobs::http
