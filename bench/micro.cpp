// Measures the parts by themselves, without the kernel: evaluation, plan, filter, record.
//
// Rule sets are like those of bench/run.py: a few rules that decide, padded with rules that never match.
#include <benchmark/benchmark.h>

#include <string>
#include <vector>

#include "rules/match/rule_set.hpp"
#include "rules/plan/plan.hpp"
#include "supervisor/audit/write/format.hpp"
#include "supervisor/enforce/seccomp/compiler.hpp"

namespace {

using namespace callgate;

rules::Glob glob(const std::string& pattern) {
    auto compiled = rules::Glob::compile(pattern, rules::GlobKind::path);
    if (!compiled) throw std::invalid_argument(pattern + ": " + compiled.error().text);
    return *compiled;
}

rules::Rule file_rule(const std::string& id, rules::Action action, rules::OperationSet operations,
                      const std::string& pattern) {
    rules::Rule rule;
    rule.id = id;
    rule.action = action;
    rule.operations = operations;
    rule.when.path.push_back(glob(pattern));
    return rule;
}

rules::Rule filler(std::int64_t n) {
    const auto number = std::to_string(n);
    const rules::OperationSet both = rules::write_operations | rules::Operation::read;
    switch (n % 3) {
        case 0:
            return file_rule("filler-" + number, rules::Action::deny, both, "/srv/archive/" + number + "/**");
        case 1:
            return file_rule("filler-" + number, rules::Action::deny, both,
                             "/home/u/work/**/secret-" + number);
        default:
            return file_rule("filler-" + number, rules::Action::deny, both, "/home/u/work/vault/" + number);
    }
}

rules::RuleSet rule_set(std::int64_t count) {
    using rules::Operation;
    std::vector<rules::Rule> all;
    all.push_back(
        file_rule("system", rules::Action::allow, {Operation::read, Operation::execute}, "/usr/**"));
    all.push_back(file_rule("work", rules::Action::allow, rules::write_operations | Operation::read,
                            "/home/u/work/**"));
    all.push_back(file_rule("keys", rules::Action::deny, Operation::read, "/home/u/work/**/*.key"));
    for (std::int64_t n = 3; n < count; ++n) all.push_back(filler(n));
    return {std::move(all), rules::Action::deny};
}

rules::Request read_of(std::string_view path) {
    rules::Request request;
    request.operations = rules::Operation::read;
    request.object = rules::FileObject{path};
    return request;
}

void evaluate(benchmark::State& state, std::string_view path, rules::Action expected) {
    const auto set = rule_set(state.range(0));
    const auto request = read_of(path);
    if (set.evaluate(request).action != expected) {
        state.SkipWithError("the verdict is another");
        return;
    }
    for ([[maybe_unused]] auto _ : state) benchmark::DoNotOptimize(set.evaluate(request));
}

void evaluate_allowed(benchmark::State& state) {
    evaluate(state, "/home/u/work/project/source/main.py", rules::Action::allow);
}
BENCHMARK(evaluate_allowed)->Arg(10)->Arg(1000);

void evaluate_denied(benchmark::State& state) {
    evaluate(state, "/home/u/work/project/source/server.key", rules::Action::deny);
}
BENCHMARK(evaluate_denied)->Arg(10)->Arg(1000);

void evaluate_unnamed(benchmark::State& state) {
    evaluate(state, "/opt/elsewhere/file", rules::Action::deny);
}
BENCHMARK(evaluate_unnamed)->Arg(10)->Arg(1000);

/// Every path is a directory without entries: splitting finds nothing to split.
class EmptyTree : public rules::FileTree {
public:
    [[nodiscard]] Kind kind(const std::string&) const override { return Kind::directory; }
    [[nodiscard]] std::optional<std::vector<Entry>> entries(const std::string&, std::size_t) const override {
        return std::vector<Entry>{};
    }
};

void plan(benchmark::State& state) {
    const auto set = rule_set(state.range(0));
    const EmptyTree tree;
    const rules::PlanInput input{7, rules::RecordMode::contested, &tree};
    for ([[maybe_unused]] auto _ : state) benchmark::DoNotOptimize(rules::make_plan(set, input));
}
BENCHMARK(plan)->Arg(10)->Arg(1000)->Unit(benchmark::kMicrosecond);

/// As many calls as a run traps or refuses, a third of them by an argument.
enforce::FilterSpec filter_spec() {
    enforce::FilterSpec spec;
    spec.architecture = 0xC000003E;  // AUDIT_ARCH_X86_64
    spec.newest_call = 469;
    for (std::uint32_t call = 0; call < 120; ++call) {
        enforce::FilterRule rule;
        rule.call = call * 3;
        rule.then.kind = call % 2 ? enforce::Disposition::Kind::notify : enforce::Disposition::Kind::refuse;
        rule.then.error = 1;
        if (call % 3 == 0) rule.tests.push_back({.argument = 1, .mask = 0x40, .value = 0x40});
        spec.rules.push_back(rule);
    }
    return spec;
}

void filter_compile(benchmark::State& state) {
    const auto spec = filter_spec();
    for ([[maybe_unused]] auto _ : state) benchmark::DoNotOptimize(enforce::compile(spec));
}
BENCHMARK(filter_compile)->Unit(benchmark::kMicrosecond);

void record_format(benchmark::State& state) {
    const auto set = rule_set(10);
    audit::Decision decision;
    const std::string path = "/home/u/work/project/source/server.key";
    decision.call = "openat";
    decision.caller = {
        .pid = 4312, .parent = 4300, .start_time = 88123, .executable = "/usr/bin/python3.11", .uid = 1000};
    decision.input.path = path;
    decision.input.flags = {"O_RDONLY", "O_CLOEXEC"};
    decision.operations = rules::Operation::read;
    decision.object = rules::FileObject{path};
    decision.identity = audit::FileIdentity{81, 2};
    decision.verdict = set.evaluate(read_of(path));
    decision.duration_ns = 18340;
    const audit::RunContext context{"k3f9", Mode::enforce};
    Buffer line;
    for ([[maybe_unused]] auto _ : state) {
        benchmark::DoNotOptimize(audit::format(line, context, decision));
        benchmark::ClobberMemory();
    }
    state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(line.size()));
}
BENCHMARK(record_format);

}  // namespace

BENCHMARK_MAIN();
