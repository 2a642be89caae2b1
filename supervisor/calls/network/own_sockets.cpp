#include "supervisor/calls/network/own_sockets.hpp"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/test_switch.hpp"
#include "rules/model/rule.hpp"

namespace callgate::calls {

namespace {

constexpr std::size_t max_pins = 1024;

const rules::Rule& others_sockets() {
    static const rules::Rule rule = [] {
        rules::Rule made;
        made.id = "callgate-others-sockets";
        made.operations = rules::Operation::connect;
        made.reason = "a socket in the work directory that this run did not bind, and that no rule names";
        made.built_in = true;
        made.source.file = "built-in";
        return made;
    }();
    return rule;
}

}  // namespace

void OwnSockets::add(const Place& place) {
    std::vector<std::uint64_t> by;
    for (const OwnSockets* one = this; one != nullptr; one = one->around_) by.push_back(one->number_);
    outermost().add(place, std::move(by));
}

void OwnSockets::add(const Place& place, std::vector<std::uint64_t> by) {
    UniqueFd pin(::openat(place.parent.get(), place.leaf.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC));
    struct stat status {};
    if (!pin || ::fstat(pin.get(), &status) != 0 || !S_ISSOCK(status.st_mode)) return;
    const std::lock_guard lock(mutex_);
    if (pins_.size() >= max_pins) forget_removed();
    // A run that holds more has its first ones refused.
    if (pins_.size() >= max_pins) pins_.erase(pins_.begin());
    pins_[{status.st_dev, status.st_ino}] = {std::move(pin), std::move(by)};
}

void OwnSockets::forget_removed() {
    std::erase_if(pins_, [](const auto& one) {
        struct stat status {};
        return ::fstat(one.second.file.get(), &status) != 0 || status.st_nlink == 0;
    });
}

bool OwnSockets::is_own(const audit::FileIdentity& identity) {
    OwnSockets& all = outermost();
    const std::lock_guard lock(all.mutex_);
    const auto found = all.pins_.find({identity.device, identity.inode});
    if (found == all.pins_.end()) return false;
    if (!check_enabled("inner-own-sockets")) return true;
    return std::ranges::find(found->second.by, number_) != found->second.by.end();
}

bool OwnSockets::by_workdir_alone(const rules::UnixObject& socket, const rules::Rule* decided_by) const {
    const auto whole = [&](const rules::Glob& glob) {
        return std::ranges::any_of(glob.branches(), [&](const rules::Glob::Branch& branch) {
            return branch.hierarchy && branch.head == workdir_;
        });
    };
    const auto wider = [&](const rules::Rule* rule) {
        if (rule->action != rules::Action::allow) return false;
        const auto& globs = rule->when.unix_socket;
        return globs.empty() || std::ranges::any_of(globs, [&](const rules::Glob& glob) {
                   return glob.matches(socket.name) && !whole(glob);
               });
    };
    const rules::Request request{rules::Operation::connect, socket, {}, {}};
    const auto all = rules_.matching(request, rules::Operation::connect);
    if (std::ranges::any_of(all, wider)) return false;
    if (around_ == nullptr) return decided_by != nullptr && !wider(decided_by);
    // The rule that decided is the outermost run's.
    return std::ranges::any_of(all,
                               [](const rules::Rule* rule) { return rule->action == rules::Action::allow; });
}

std::optional<rules::Verdict> OwnSockets::refuses(const Subject& subject, const rules::Verdict& verdict) {
    const auto* const socket = std::get_if<rules::UnixObject>(&subject.object);
    if (socket == nullptr || !subject.identity || verdict.action != rules::Action::allow ||
        !subject.operations.contains(rules::Operation::connect) || !check_enabled("own-sockets"))
        return std::nullopt;
    if (around_ != nullptr)
        if (auto refused = around_->refuses(subject, verdict)) return refused;
    if (!in_workdir(socket->name) || is_own(*subject.identity) || !by_workdir_alone(*socket, verdict.rule))
        return std::nullopt;
    rules::Verdict refused;
    refused.action = rules::Action::deny;
    refused.decided_by = rules::DecidedBy::rule;
    refused.rule = &others_sockets();
    refused.operation = rules::Operation::connect;
    refused.error = ECONNREFUSED;
    return refused;
}

}  // namespace callgate::calls
