// Look-ups that threads of connects wait for: names that rules allow literally, and names that an address
// had.
#include <boost/asio/post.hpp>
#include <condition_variable>

#include "supervisor/names/look_ups.hpp"

namespace callgate::names {

namespace {

using namespace std::chrono_literals;
using rules::Action;
using rules::Operation;

/// Whether an answer says that there is no error (RFC 1035, RCODE).
bool is_good(const std::vector<std::uint8_t>& answer) { return answer.size() > 3 && (answer[3] & 0xf) == 0; }

}  // namespace

/// The results that a thread waits for in literal_hosts and look_up_again.
struct LookUps::Gathering {
    std::mutex lock;
    std::condition_variable changed;
    std::map<std::string, std::vector<rules::IpAddress>> found;
    std::size_t missing = 1;  // the gathering itself

    void add(const std::string& name, const std::vector<rules::IpAddress>& addresses) {
        const std::lock_guard guard(lock);
        auto& all = found[name];
        all.insert(all.end(), addresses.begin(), addresses.end());
    }
    void more() {
        const std::lock_guard guard(lock);
        ++missing;
    }
    void done() {
        const std::lock_guard guard(lock);
        --missing;
        changed.notify_all();
    }
    /// Whether everything is there within this time.
    bool complete_within(std::chrono::milliseconds time) {
        std::unique_lock guard(lock);
        return changed.wait_for(guard, time, [&] { return missing == 0; });
    }
};

std::vector<std::pair<std::string, std::vector<rules::IpAddress>>> LookUps::literal_hosts() {
    const auto gathering = std::make_shared<Gathering>();
    boost::asio::post(loop_, [this, gathering, alive = std::weak_ptr<int>(alive_)] {
        if (!alive.expired()) gather(gathering);
        gathering->done();
    });
    static_cast<void>(gathering->complete_within(300ms));
    const std::lock_guard guard(gathering->lock);
    return {gathering->found.begin(), gathering->found.end()};
}

/// Looks up what rules allow by its whole name, for every program. Nothing else is on the way to the servers,
/// so nothing is recorded: the rules themselves say that these names are looked up.
void LookUps::gather(const std::shared_ptr<Gathering>& into) {
    constexpr std::size_t max_literal = 256;
    hosts_.refresh();
    std::set<std::string> names;
    for (const rules::Rule& rule : needs_.enforced.rules.rules()) {
        if (rule.action != Action::allow || !rule.operations.contains(Operation::connect)) continue;
        for (const rules::HostPattern& host : rule.when.host)
            if (!host.suffix && names.size() < max_literal) names.insert(host.text);
    }
    for (const std::string& name : names) {
        if (hosts_.find(name) != nullptr || evaluate(name, {}).action != Action::allow) continue;
        for (const Type type : {type_a, type_aaaa}) {
            Waiting one;
            one.query.name = name;
            one.query.type = type;
            one.limit = max_answer;
            into->more();
            one.reply = [this, into, name, type](const std::vector<std::uint8_t>& message) {
                const auto known = known_.find({name, type});
                if (known != known_.end() && is_good(message)) into->add(name, known->second.found.addresses);
                into->done();
            };
            resolve(std::move(one));
        }
    }
}

void LookUps::look_up_again(const std::vector<std::string>& names, const rules::IpAddress& address,
                            const Asker& asker, const std::function<bool()>& wanted) {
    const auto gathering = std::make_shared<Gathering>();
    boost::asio::post(loop_, [this, gathering, names, address, asker, alive = std::weak_ptr<int>(alive_)] {
        if (!alive.expired()) {
            for (const std::string& name : names)
                begin_again(gathering, name, address.v6 ? type_aaaa : type_a, asker);
        }
        gathering->done();
    });
    for (const auto end = Clock::now() + 3s; Clock::now() < end && wanted();)
        if (gathering->complete_within(50ms)) return;
}

void LookUps::begin_again(const std::shared_ptr<Gathering>& into, const std::string& name, std::uint16_t type,
                          const Asker& asker) {
    hosts_.refresh();
    if (const auto* const own = hosts_.find(name); own != nullptr) {
        for (const rules::IpAddress& one : *own) bindings_.bind(name, one);
        return;
    }
    Waiting one{.query = {}, .asker = asker, .limit = max_answer, .reply = {}};
    one.query.name = name;
    one.query.host_name = true;
    one.query.type = type;
    Decided decided = judge(one);
    if (decided.verdict.action == Action::ask && needs_.observation == nullptr) return;
    into->more();
    one.reply = [into](const std::vector<std::uint8_t>&) { into->done(); };
    conclude(one, std::move(decided));
}

}  // namespace callgate::names
