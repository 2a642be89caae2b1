#include "supervisor/jobs/run_process.hpp"

#include <cerrno>
#include <utility>

#include "supervisor/jobs/command_line.hpp"
#include "supervisor/jobs/language.hpp"

namespace callgate::jobs {

namespace {

/// Both ends of everything that connects a run with the server.
struct Ends {
    Pipe input, output, error, report;
    UniqueFd script, rules;

    [[nodiscard]] Result<void> make(const Connections& wanted) {
        for (Pipe* const pipe : {&input, &output, &error, &report}) {
            if ((pipe == &input && !wanted.input) || (pipe == &error && wanted.merged)) continue;
            auto made = make_pipe();
            if (!made) return made.error();
            *pipe = std::move(*made);
        }
        for (const auto& [text, file] :
             {std::pair(wanted.script, &script), std::pair(wanted.rules, &rules)}) {
            if (text.empty()) continue;
            auto made = make_file(text);
            if (!made) return made.error();
            *file = std::move(*made);
        }
        return {};
    }

    [[nodiscard]] std::vector<std::pair<int, int>> numbers(const Connections& wanted) const {
        std::vector<std::pair<int, int>> all;
        const auto give = [&all](const UniqueFd& end, int number) {
            if (end) all.emplace_back(end.get(), number);
        };
        give(input.read, 0);
        give(output.write, 1);
        give(wanted.merged ? output.write : error.write, 2);
        give(report.write, report_descriptor);
        give(script, script_descriptor);
        give(rules, rules_descriptor);
        return all;
    }
};

RunProcess server_ends(Ends ends) {
    return {{},
            std::move(ends.input.write),
            std::move(ends.output.read),
            std::move(ends.error.read),
            std::move(ends.report.read),
            {}};
}

}  // namespace

std::vector<std::string> own_words(std::string_view verb, const std::vector<std::string>& words) {
    std::vector<std::string> all{"callgate", std::string(verb)};
    all.insert(all.end(), words.begin(), words.end());
    return all;
}

Expected<RunProcess> start_run(std::string_view verb, const std::vector<std::string>& words,
                               const std::vector<std::string>& environment, const Connections& connections,
                               const SignalState& signals) {
    Ends ends;
    if (const Result<void> made = ends.make(connections); !made)
        return Problem{"cannot start the job: " + made.error().message() +
                       "; allow more descriptors (ulimit -n) or fewer jobs"};
    auto child = spawn(own_program, own_words(verb, words), environment, ends.numbers(connections), signals);
    if (!child) {
        const std::string reason = child.error().message();
        return Problem{child.error().value() == E2BIG
                           ? "the job's command, rules and variables are too long for this system: " + reason
                           : "cannot start the job: " + reason};
    }
    RunProcess run = server_ends(std::move(ends));
    run.child = std::move(*child);
    return run;
}

std::optional<RunProcess> connect_run(const Connections& connections,
                                      const std::function<bool(std::span<const std::pair<int, int>>)>& send) {
    Ends ends;
    if (!ends.make(connections) || !send(ends.numbers(connections))) return std::nullopt;
    return server_ends(std::move(ends));
}

}  // namespace callgate::jobs
