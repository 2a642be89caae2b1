// Decides each look-up of a name, by the rules or by a person, and answers it.
//
// An attacker controls the messages, and through the servers that it may reach also the answers. A name goes
// out only after it was allowed and recorded, and nothing of the query goes with it but name and type. A
// denied name does not exist for the program (NXDOMAIN, without a record that would let it be remembered).
// Addresses are bound to the name that was asked (bindings.hpp). Loop thread only, unless noted.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "supervisor/decide/context.hpp"
#include "supervisor/names/asker.hpp"
#include "supervisor/names/bindings.hpp"
#include "supervisor/names/hosts.hpp"
#include "supervisor/names/message.hpp"
#include "supervisor/names/upstream.hpp"

namespace callgate::names {

/// An answer of a person or program that counts for one process and name.
struct OnceAnswered {
    rules::Action action = rules::Action::deny;
    rules::DecidedBy by = rules::DecidedBy::person;
    std::uint64_t question = 0;
};

class LookUps {
public:
    /// Names below one `*.suffix` that a run may look up, and so many that it is worth a warning.
    static constexpr std::size_t max_names_of_suffix = 2000, many_names_of_suffix = 200;

    /// All arguments outlive it.
    LookUps(boost::asio::io_context& loop, calls::DecideNeeds& needs, Bindings& bindings);
    LookUps(const LookUps&) = delete;
    LookUps& operator=(const LookUps&) = delete;
    ~LookUps();

    using Reply = std::function<void(std::vector<std::uint8_t> message)>;
    /// Takes a query as it came. `reply` is called once, perhaps at once. `limit`: the longest message that
    /// can be handed back. False: it is no query that could be answered, and `reply` is never called.
    bool take(Bytes message, const Asker& asker, std::size_t limit, Reply reply);

    /// The addresses of all names that rules allow literally, as far as they are known within 300 ms. Looks
    /// them up again when their time is over. Any thread but the loop's.
    [[nodiscard]] std::vector<std::pair<std::string, std::vector<rules::IpAddress>>> literal_hosts();

    /// Looks up again the names that an address had, so that those which still lead to it are bound again. A
    /// name about which a person would be asked anew is left out. Waits at most three seconds, and no longer
    /// than `wanted`. Any thread but the loop's.
    void look_up_again(const std::vector<std::string>& names, const rules::IpAddress& address,
                       const Asker& asker, const std::function<bool()>& wanted);

    /// Whether some rule names this host. Any thread.
    [[nodiscard]] bool named(std::string_view name) const;
    /// The answer that a process got when it was asked about one of these names. Any thread.
    [[nodiscard]] std::optional<OnceAnswered> answered(const Asker& asker,
                                                       const std::vector<std::string>& names) const;

private:
    using Clock = std::chrono::steady_clock;
    static constexpr std::size_t max_waiting = 64;  // queries that wait for one answer
    struct Waiting {
        Query query;
        Asker asker;
        std::size_t limit = 0;
        Reply reply;
    };
    /// A process and a name: its queries for several types are one look-up.
    using Key = std::tuple<pid_t, std::uint64_t, std::string>;
    struct Recent {
        bool allowed = false;
        Clock::time_point until;
        std::set<std::uint16_t> types;
    };
    struct Decided {
        rules::Verdict verdict;
        std::string reason{};
        std::uint64_t question = 0, grant = 0;
        std::optional<approval::Subject> granted{};
    };
    struct Known {
        bool under_way = false;
        Clock::time_point until;
        Found found;
        std::vector<rules::IpAddress> own;  // of those that were found: this machine's
        std::vector<std::uint8_t> message;  // of types that are passed on
        std::vector<Waiting> waiting;
    };
    /// The queries of a process that wait for one answer. The number tells it from later ones of its key.
    struct Asking {
        std::uint64_t number = 0;
        std::vector<Waiting> queries;
    };
    class Asked;
    struct Gathering;
    void gather(const std::shared_ptr<Gathering>& into);
    void begin_again(const std::shared_ptr<Gathering>& into, const std::string& name, std::uint16_t type,
                     const Asker& asker);

    [[nodiscard]] static Key key_of(const Waiting& one);
    bool answer_here(const Waiting& one);
    void answer_address_query(const Waiting& one);
    void decide(Waiting one);
    void conclude(const Waiting& one, const Decided& decided);
    [[nodiscard]] Decided judge(const Waiting& one);
    static void deny_here(Decided& decided, std::string reason);
    void count_name(Decided& decided, const std::string& name, const std::string& suffix);
    void ask(Waiting one, rules::Verdict verdict);
    void answered(const Key& key, const approval::Approval& approval);
    void withdrawn(const Key& key, std::uint64_t number);
    [[nodiscard]] bool record(const Waiting& one, const Decided& decided);
    [[nodiscard]] bool write(const Waiting& one, const Decided& decided, std::uint64_t question,
                             std::uint64_t grant);
    [[nodiscard]] bool observe(const Waiting& one);
    void resolve(Waiting one);
    void found(const std::string& name, std::uint16_t type, Bytes message);
    static void take_found(const std::string& name, std::uint16_t type, Known& known, Bytes message);
    [[nodiscard]] bool denies_alias(const Waiting& one, const Found& found);
    void bind(const std::string& name, const std::vector<rules::IpAddress>& addresses,
              const std::vector<rules::IpAddress>& own);
    void respond(const Waiting& one, const Known& known);
    /// The judges of the nested run that it is of, else those of the run.
    [[nodiscard]] const calls::DecideNeeds& judges_of(const Asker& asker) const;
    [[nodiscard]] rules::Verdict evaluate(const std::string& name, const Asker& asker) const;
    [[nodiscard]] const rules::RuleSet& user_rules() const;

    boost::asio::io_context& loop_;
    calls::DecideNeeds& needs_;
    Bindings& bindings_;
    Upstream upstream_;
    Hosts hosts_;
    std::map<Key, Recent> recent_;
    std::map<Key, Asking> asking_;
    std::uint64_t last_asking_ = 0;
    std::map<std::pair<std::string, std::uint16_t>, Known> known_;
    std::map<std::string, std::set<std::string>, std::less<>> names_of_suffix_;  // by "*.suffix"
    std::size_t turn_ = 0;                                                       // rotates answers
    std::shared_ptr<int> alive_ = std::make_shared<int>();
    mutable std::mutex lock_;
    std::map<Key, OnceAnswered> once_;
};

}  // namespace callgate::names
