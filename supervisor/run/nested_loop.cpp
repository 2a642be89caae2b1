#include "supervisor/run/nested_loop.hpp"

#include <unistd.h>

#include <boost/asio/posix/stream_descriptor.hpp>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/process/await_readable.hpp"
#include "base/process/held_signals.hpp"
#include "base/process/open_files.hpp"
#include "base/write_error.hpp"
#include "supervisor/nested/outer_run.hpp"

namespace callgate {

RunOutcome NestedLoop::run(RunLoop::Work work) {
    nested::OuterRun& outer = *given_.request.outer;
    raise_open_files();
    given_.launched.await_confined();
    hold_limits(given_, work, loop_, tree_limits_);
    if (held_signal() != 0) throw SetupError("a signal ended the run before the command began");
    if (tree_limits_) tree_limits_->start();
    boost::asio::posix::stream_descriptor hung_up(loop_.context(), ::dup(outer.descriptor()));
    // This process asks nothing while the command runs. So only the end of the connection makes this
    // readable.
    await_readable(hung_up, [this](const auto& error) {
        if (!error) loop_.end_tree(Outcome::killed_by_rule);
    });
    given_.launched.let_go();
    if (work.started) work.started();
    EventLoop::Settings settings{.wall = work.command.limits.wall,
                                 .grace = given_.request.grace,
                                 .command_ended = std::move(work.command_ended),
                                 .relay = std::nullopt,
                                 .tick = [] { return false; }};
    set_limits(settings, tree_limits_);
    RunOutcome outcome = loop_.run(given_.launched.guardian, std::move(settings));
    note_tree_limits(tree_limits_, outcome);
    if (const auto gathered = outer.report()) {
        given_.report.take(*gathered);
    } else {
        // The run around has hung up. The command may have ended by itself before that was seen.
        outcome.outcome = Outcome::killed_by_rule;
        outcome.exit_status = exit_status(Outcome::killed_by_rule).value_or(outcome.exit_status);
    }
    return outcome;
}

}  // namespace callgate
