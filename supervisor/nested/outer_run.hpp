// The run around this process, as the callgate of a nested run sees it (nested/channel.hpp).
//
// The variable CALLGATE says only that there may be one. The connect shows it: a run answers it with a socket
// whose peer has no name. Whoever listens at that name outside of a run has it as its name, and is not
// believed.
#pragma once

#include <sys/types.h>

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "base/expected.hpp"
#include "base/unique_fd.hpp"
#include "rules/plan/plan.hpp"

namespace callgate::nested {

class OuterRun {
public:
    /// Connects to the run around. The problem says why there is none that could be reached.
    [[nodiscard]] static Expected<OuterRun> find();

    /// Its name.
    [[nodiscard]] const std::string& run() const { return run_; }
    /// The file that lists its denials; "" if an older callgate answers.
    [[nodiscard]] const std::string& denials() const { return denials_; }
    /// Readable when the run around hangs up.
    [[nodiscard]] int descriptor() const { return socket_.get(); }

    struct Wish {
        std::string run, rules, workdir;  // the name; the rules (rules/load/written_rules.hpp)
        pid_t guardian = -1;
        bool asks = true, sni = false;
    };
    struct Place {
        std::string token;                 // the launcher enters by it
        std::vector<rules::Grant> grants;  // what the run around holds for static; of the Landlock domain
    };
    /// The problem is the outer run's answer.
    [[nodiscard]] Expected<Place> nest(const Wish& wish);
    /// The denials of the nested run (RunReport::take).
    [[nodiscard]] Expected<nlohmann::json> report();
    /// The answer to a request; its "do" names a handler of the channel. Waits at most a minute.
    [[nodiscard]] Expected<nlohmann::json> ask(const nlohmann::json& request);

private:
    explicit OuterRun(UniqueFd socket) : socket_(std::move(socket)) {}
    UniqueFd socket_;
    std::string run_, denials_;
};

}  // namespace callgate::nested
