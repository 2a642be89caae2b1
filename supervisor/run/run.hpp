// A run from its launch to the exit of this process: log, limits, RunLoop, report.
//
// `Request → Compiled → Launched → Run`: each phase needs the one before it (request.hpp, launch.hpp).
#pragma once

#include <memory>

#include "supervisor/run/launch.hpp"
#include "supervisor/run/notices.hpp"
#include "supervisor/run/request.hpp"

namespace callgate {

class Run {
public:
    /// Makes everything that can answer the command's calls, so there are threads from here on. The
    /// arguments outlive it. Throws std::exception.
    Run(const Request& request, const Compiled& compiled, Launched& launched);
    Run(const Run&) = delete;
    Run& operator=(const Run&) = delete;
    ~Run();

    /// Runs the command, which the agent knows already (Launched::send_command). Ends the process with
    /// callgate's exit status (docs/cli.md). Its own failures become one line on stderr and 125.
    [[noreturn]] void complete(const Command& command, RunNotices notices = {});

private:
    class Parts;
    std::unique_ptr<Parts> parts_;
};

}  // namespace callgate
