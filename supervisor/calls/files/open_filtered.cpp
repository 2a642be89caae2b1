// Settings files in place of which a run gets a copy without credentials.
//
// An attacker controls which file is opened and with which flags, never what the file holds: rules that say
// `filtered` deny writing too. The file is read through its pin, by this thread, with the caller's identity.
// The copy is a sealed memory file. Its holder can neither change it nor reach the original through it.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <string>

#include "base/test_switch.hpp"
#include "base/write_all.hpp"
#include "rules/model/rule.hpp"
#include "supervisor/calls/files/filtered_change.hpp"
#include "supervisor/calls/files/opening.hpp"
#include "supervisor/calls/files/settings_copy.hpp"
#include "supervisor/calls/files/settings_file.hpp"
#include "supervisor/calls/files/settings_locks.hpp"
#include "supervisor/decide/parties.hpp"

namespace callgate::calls {

namespace {

constexpr std::string_view unknown_format =
    "credentials cannot be left out: this is no settings file of a known format";

/// The whole file, or nothing if it cannot be read or is larger than a settings file.
std::optional<std::string> content_of(const Object& object) {
    if (!S_ISREG(object.status.st_mode)) return std::nullopt;
    const kernel::PinPath pin(object.pin.get());
    const UniqueFd file(::open(pin.text, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
    if (!file) return std::nullopt;
    return read_settings(file.get());
}

/// A sealed memory file, open for reading, with the permissions of the original as far as they only read.
UniqueFd memory_copy(const std::string& content, mode_t mode) {
    const UniqueFd made(::memfd_create("callgate-settings", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    if (!made || !write_all(made.get(), content) || ::fchmod(made.get(), mode & 0444) != 0 ||
        ::fcntl(made.get(), F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL) != 0)
        return {};
    const kernel::PinPath path(made.get());
    return UniqueFd(::open(path.text, O_RDONLY | O_CLOEXEC));
}

/// The name by which the format of `path` is known: its own, or that of the user's link to it that a rule
/// names.
std::string_view settings_name(std::string_view path, const FileNeeds& needs) {
    if (needs.links == nullptr || settings_known(path)) return path;
    for (const auto& [name, real] : *needs.links)
        if (real == path && settings_known(name)) return name;
    return path;
}

/// Whether the rules of each level let the harmless part be read. Another rule that denies or asks is about
/// the whole file. So is the default of a nested run whose rules say nothing of it.
bool may_be_filtered(const rules::RuleSet& rules, const rules::Request& request) {
    for (const rules::RuleSet* level = &rules; level != nullptr; level = level->outer()) {
        const auto all = level->matching(request, rules::Operation::read);
        const bool free = std::ranges::all_of(all, [](const rules::Rule* rule) {
            return rule->action == rules::Action::allow || rule->filtered;
        });
        if (!free || (all.empty() && level->fallback() != rules::Action::allow)) return false;
    }
    return true;
}

}  // namespace

bool Opening::hand_filtered(const Object& object, const Subject& judged, const rules::Verdict& verdict) {
    if (verdict.action != rules::Action::deny || verdict.rule == nullptr || !verdict.rule->filtered ||
        !check_enabled("filtered-copy"))
        return false;
    if (judged.operations != rules::OperationSet(rules::Operation::read) || !S_ISREG(object.status.st_mode) ||
        object.unlinked)
        return false;
    const rules::Request request{judged.operations, judged.object, context_.caller.executable,
                                 judged.input.arguments, party_of(context_)};
    if (!may_be_filtered(context_.needs.enforced.rules, request) && check_enabled("filtered-alone"))
        return false;

    const auto content = content_of(object);
    const std::string* const run_file = context_.files.login_file;
    const std::string_view login_file = run_file == nullptr ? "" : std::string_view(*run_file);
    const auto copy = content
                          ? settings_copy(settings_name(object.path, context_.files), *content, login_file)
                          : std::nullopt;
    UniqueFd file = copy ? memory_copy(*copy, object.status.st_mode) : UniqueFd();
    if (!file) {
        audit::Decision decision = decision_on(context_, judged, verdict);
        decision.reason = unknown_format;
        static_cast<void>(record(context_, decision));
        return context_.fail(EACCES), true;
    }
    if (const auto sequence = record_filtered(context_, judged, verdict)) finish(std::move(file), *sequence);
    return true;
}

std::optional<Opening::Next> Opening::make_filtered(const Place& place, const Subject& judged) {
    const auto verdict = filtered_opening(context_, judged, place.path);
    if (!verdict) return std::nullopt;
    const auto sequence = record_filtered(context_, judged, *verdict);
    if (!sequence) return Next::done;
    is_count_ = is_git_count(place.path) && wanted_.writes();
    const int access = is_count_                             ? O_WRONLY
                       : check_enabled("new-settings-empty") ? O_RDONLY
                                                             : wanted_.access();
    return create(place, (wanted_.flags & ~O_ACCMODE) | access, *sequence);
}

bool Opening::rewrite_count(const Object& object, const Subject& judged) {
    const bool whole = wanted_.writes() && wanted_.truncates() && S_ISREG(object.status.st_mode);
    if (!whole || object.unlinked || !is_git_count(object.path)) return false;
    const auto verdict = filtered_opening(context_, judged, object.path);
    if (!verdict) return false;
    const auto sequence = record_filtered(context_, judged, *verdict);
    if (!sequence) return true;
    const kernel::PinPath pin(object.pin.get());
    UniqueFd real(::openat(kernel::own_descriptors(), pin.number(), O_WRONLY | O_TRUNC | O_CLOEXEC));
    return real ? hand_count(std::move(real), *sequence) : finish_failed(*sequence, errno), true;
}

void Opening::hand_count(UniqueFd real, std::uint64_t sequence) {
    auto handed = context_.files.locks->counts().replace(std::move(real), wanted_.access());
    return handed ? finish(std::move(*handed), sequence) : finish_failed(sequence, handed.error().value());
}

}  // namespace callgate::calls
