"""Lines that ensure *recorded before the effect* and *closed on failure*, taken out one at a time: unit tests must fail.

Each change is built with the commands of the tested build (rebuilt.py), and only the tests of deciding and of its handlers run.
A plain run takes an eighteenth of the lines, other ones with every commit; a long run takes all.
"""
from __future__ import annotations

import os
import subprocess
from typing import NamedTuple

import pytest

import harness
from rebuilt import BUILD, Copy

PARTS = 1 if harness.SOAK else 18
TESTS = "--source-file=*unit/supervisor/decide/*,*files/open_test*,*network/connect_test*,*files/move_test*,*exec/handler_test*"


class Line(NamedTuple):
    """A line of the core, and a text in its place that does not ensure the same."""

    name: str
    path: str
    line: str
    instead: str


LINES = (
    Line('record-first: failed write counts as written', 'supervisor/decide/decide.cpp',
         '    needs.sink.note(unrecorded);\n    return std::nullopt;',
         '    needs.sink.note(unrecorded);\n    return 0;'),
    Line('enforce without a record', 'supervisor/decide/decide.cpp',
         '    const auto sequence = record(context, decision);\n    if (!sequence) return {.error = unrecorded_error};',
         '    static_cast<void>(context);\n    const std::optional<std::uint64_t> sequence = 0;'),
    Line('audit mode: unrecorded goes on', 'supervisor/decide/decide.cpp',
         '    return sequence ? Decision{.sequence = *sequence} : Decision{.error = unrecorded_error};',
         '    return Decision{.sequence = sequence.value_or(0)};'),
    Line('audit mode: let_continue goes on unrecorded', 'supervisor/decide/decide.cpp',
         '        if (!observe(context, subject, {}, audit::Mechanism::continued))\n            return context.fail(unrecorded_error);',
         '        static_cast<void>(observe(context, subject, {}, audit::Mechanism::continued));'),
    Line('let_continue goes on unrecorded', 'supervisor/decide/decide.cpp',
         '        if (!record(context, decision)) return context.fail(unrecorded_error);',
         '        static_cast<void>(record(context, decision));'),
    Line('let_continue answers before the record', 'supervisor/decide/decide.cpp',
         '        if (!record(context, decision)) return context.fail(unrecorded_error);',
         '        context.call.let_continue();\n        if (!record(context, decision)) return context.fail(unrecorded_error);'),
    Line('kill does not kill the caller', 'supervisor/decide/decide.cpp',
         '            ::kill(context.thread(), SIGKILL);',
         '            ::kill(context.thread(), SIGTERM);'),
    Line('kill does not end the run', 'supervisor/decide/decide.cpp',
         '            context.needs.kill_tree();\n',
         ''),
    Line('elsewhere not checked', 'supervisor/decide/decide.cpp',
         'context.caller.cache.elsewhere(context.thread())) {',
         'false) {'),
    Line('second object not judged', 'supervisor/decide/decide.cpp',
         '    return second.action > verdict.action ? second : verdict;',
         '    return verdict;'),
    Line('no queue: allowed', 'supervisor/decide/ask.cpp',
         '    if (context.needs.questions == nullptr) return unasked(ask_verdict, audit::unasked::nobody);',
         '    if (context.needs.questions == nullptr) return {.parked = false, .verdict = allow_all(), .reason = {}};'),
    Line('answer counts for another subject', 'supervisor/decide/ask.cpp',
         'const bool same = all[index].key == key ||',
         'const bool same = true || all[index].key == key ||'),
    Line('unused answers are no reason to deny', 'supervisor/decide/ask.cpp',
         '    if (has_unused(context)) return denied(ask_verdict, "it has changed since it was asked about");\n',
         '    static_cast<void>(has_unused);\n'),
    Line('question refused by the queue: allowed', 'supervisor/decide/ask.cpp',
         '    if (how == Admission::nobody) return unasked(verdict, why_not(how));\n    return denied(verdict, why_not(how));',
         '    return {.parked = false, .verdict = allow_all(), .reason = why_not(how)};'),
    Line('revoked grant still allows', 'supervisor/decide/decide.cpp',
         '        return written;\n    by_grant',
         '        return written;\n    return write_record(context, by_grant);\n    by_grant'),
    Line('half-done call is asked about', 'supervisor/decide/decide.cpp',
         '        if (context.asking == Asking::later) return {.error = EAGAIN};\n',
         ''),
    Line('too late call is asked about', 'supervisor/decide/ask.cpp',
         '    if (context.asking == Asking::never) return unasked(ask_verdict, audit::unasked::late);\n',
         ''),
    Line('audit mode names the first object, not the strictest', 'supervisor/decide/observe.cpp',
         '    std::rotate(all.begin(), decisive, decisive + 1);\n',
         '    static_cast<void>(decisive);\n'),
    Line('open: creates although refused', 'supervisor/calls/files/open.cpp',
         '    if (!decision.allowed()) return context_.fail(decision.error), Next::done;\n    return create(',
         '    return create('),
    Line('open: opens although refused', 'supervisor/calls/files/open.cpp',
         '    if (!decision.allowed()) return context_.fail(decision.error), Next::done;\n    return act_on(',
         '    return act_on('),
    Line('open: caller may be gone', 'supervisor/calls/files/open.cpp',
         '        if (attempt == 0 && !context_.call.waiting()) return;\n',
         ''),
    Line('open: another object is believed', 'supervisor/calls/files/open_act.cpp',
         '        (::fstat(fd.get(), &found) != 0 || !judged(found))) {',
         '        ::fstat(fd.get(), &found) != 0) {'),
    Line('open: creation is not exclusive', 'supervisor/calls/files/open_act.cpp',
         'O_CREAT | O_EXCL | O_NOCTTY | O_CLOEXEC;',
         'O_CREAT | O_NOCTTY | O_CLOEXEC;'),
    Line('open: by name, not by pin', 'supervisor/calls/files/open_act.cpp',
         '    if (!check_enabled("pinned-object")) {',
         '    if (check_enabled("pinned-object")) {'),
    Line('open: no limit of attempts', 'supervisor/calls/files/open.cpp',
         'constexpr int max_attempts = 64;',
         'constexpr int max_attempts = 1 << 12;'),
    Line('connect: connects although refused', 'supervisor/calls/network/connect.cpp',
         '    if (!decision.allowed()) return refuse(context, call.socket, decision.error);\n    make',
         '    make'),
    Line('connect: connects before deciding', 'supervisor/calls/network/connect.cpp',
         '    const Decision decision = answered ',
         '    ::connect(call.socket.fd.get(), call.address.get(), call.address.length);\n    const Decision decision = answered '),
    Line('connect: caller may be gone', 'supervisor/calls/network/connect.cpp',
         '    auto call = take(context);\n    if (!context.call.waiting()) return;',
         '    auto call = take(context);'),
    Line('connect: to the name, not the pin', 'supervisor/calls/network/connect.cpp',
         '    connect_judged(context, call.socket, peer->address, subject',
         '    connect_judged(context, call.socket, call.address, subject'),
    Line('rename: acts although refused', 'supervisor/calls/files/move.cpp',
         '        if (!decision.allowed()) return context.fail(decision.error);\n',
         ''),
    Line('rename: caller may be gone', 'supervisor/calls/files/move.cpp',
         '        if (!context.call.waiting()) return;\n        Rename',
         '        Rename'),
    Line('rename: widening is not judged', 'supervisor/calls/files/move.cpp',
         '        const auto moved = moves.evaluate({from.path, to.path, kind_of(status)});\n        if (!moved.allowed) return moved.verdict;',
         '        static_cast<void>(to);'),
    Line('link: acts although refused', 'supervisor/calls/files/move.cpp',
         '    });\n    if (!decision.allowed()) return context.fail(decision.error);',
         '    });'),
    Line('execute: goes on although refused', 'supervisor/calls/exec/execute.cpp',
         '    if (!decision.allowed()) return context_.fail(decision.error);\n    context_.call.let_continue();',
         '    context_.call.let_continue();'),
    Line('execute: unheld goes on', 'supervisor/calls/exec/execute.cpp',
         '        if (lets) continue;',
         '        if (lets || true) continue;'),
    Line('execute: interpreters are not judged', 'supervisor/calls/exec/execute.cpp',
         '    find_interpreters();\n    if (context_.needs.parties',
         '    if (context_.needs.parties'),
    Line('execute: unwatched where it cannot be held', 'supervisor/calls/exec/watch.cpp',
         '        return deny_failure(context, subject, EPERM, why_not_held(context, tracer.error().value()));',
         '        context.call.let_continue();\n        return;'),
)


@pytest.fixture(scope="module")
def copy(tmp_path_factory):
    if not (BUILD / "build.ninja").exists():
        pytest.skip("the tested program does not lie in its build tree")
    return Copy(tmp_path_factory.mktemp("lines"), "tests/callgate_tests")


def failures(program: object) -> int:
    """Runs the tests of the core; returns the number of failed ones, or 1 for a crash or a hang."""
    try:
        done = subprocess.run([str(program), TESTS, "-m"], capture_output=True, text=True, check=False, timeout=60)
    except subprocess.TimeoutExpired:
        return 1
    return 0 if done.returncode == 0 else max(1, done.stdout.count("TEST CASE:"))


def test_the_lines_are_there_and_the_tests_pass(copy):
    assert failures(BUILD / "tests" / "callgate_tests") == 0
    for one in LINES:
        copy.replace(one.path, one.line, one.instead)
        copy.restore()


@pytest.mark.skipif(os.geteuid() != 0, reason="the program is the same for every user")
@pytest.mark.parametrize("one", [pytest.param(line, id=line.name) for line in harness.part_of_today(LINES, PARTS)])
def test_without_the_line_a_test_fails(copy, one):
    copy.replace(one.path, one.line, one.instead)
    try:
        assert failures(copy.build()) > 0, f"no test misses this line of {one.path}:\n{one.line}"
    finally:
        copy.restore()
