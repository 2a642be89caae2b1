"""Waits for a run in the calling thread. Questions are answered by one thread of their own, one after the other."""
from __future__ import annotations

import asyncio
import inspect
import os
import queue
import select
import threading
import time

from .exchange import PATIENCE, Exchange
from .question import DENY, Answer, Channel, OnAsk, Question, Said

READY = select.POLLIN | select.POLLHUP | select.POLLERR


async def _awaited(said: object) -> Said:
    return await said  # type: ignore[misc, no-any-return]


class Answering:
    """Takes questions off the channel and asks `on_ask`, in a thread that lives as long as the run."""

    def __init__(self, channel: Channel, on_ask: OnAsk) -> None:
        self.channel, self.on_ask = channel, on_ask
        self.questions: queue.SimpleQueue[Question | None] = queue.SimpleQueue()
        self.failure: BaseException | None = None
        self.failed, self.failing = os.pipe()
        self.thread: threading.Thread | None = None

    def readable(self) -> bool:
        news = self.channel.receive()
        if news is None:
            return False
        for question in news[0]:
            if self.thread is None:
                self.thread = threading.Thread(target=self._work, name="callgate on_ask", daemon=True)
                self.thread.start()
            self.questions.put(question)
        return True

    def _work(self) -> None:
        """The thread closes its end of the pipe, which wakes the waiting thread. No other code may close it."""
        try:
            while (question := self.questions.get()) is not None:
                if question.id in self.channel.open:  # else withdrawn while others were answered
                    self._answer(question)
        except BaseException as error:
            self.failure = error
        finally:
            os.close(self.failing)

    def _answer(self, question: Question) -> None:
        answer = DENY
        try:
            said = self.on_ask(question)
            answer = Answer.of(asyncio.run(_awaited(said)) if inspect.isawaitable(said) else said)
        finally:
            self.channel.answer(question, answer)

    def close(self) -> None:
        """Does not wait for an `on_ask` that still runs: its answer no longer counts."""
        if self.thread is None:
            os.close(self.failing)
        self.questions.put(None)
        os.close(self.failed)


def drive(exchange: Exchange, deadline: float | None, on_ask: OnAsk | None = None) -> None:
    """Returns when the run is over, even if interrupted. callgate itself is killed at `deadline` (monotonic seconds)."""
    answering = Answering(exchange.channel, on_ask) if exchange.channel and on_ask else None
    try:
        _wait(exchange, deadline, answering)
        if answering and answering.failure:
            raise answering.failure
    except BaseException:
        exchange.terminate()
        try:
            _wait(exchange, time.monotonic() + PATIENCE, None)
        finally:
            if not exchange.ended:
                exchange.kill()
                _wait(exchange, time.monotonic() + PATIENCE, None)
        raise
    finally:
        exchange.close()
        if answering:
            answering.close()


def _wait(exchange: Exchange, deadline: float | None, answering: Answering | None) -> None:
    poller = select.poll()
    for descriptor in exchange.sources:
        poller.register(descriptor, READY)
    if exchange.writer is not None:
        poller.register(exchange.writer, select.POLLOUT)
    asked = answering.channel.ours.fileno() if answering else -1
    if answering:
        poller.register(asked, READY)
        poller.register(answering.failed, READY)
    while not exchange.ended:
        left = None if deadline is None else max(0.0, deadline - time.monotonic())
        events = poller.poll(None if left is None else left * 1000 + 1)
        if not events and left == 0.0:
            more = exchange.expire()
            if more is None:
                return
            deadline = time.monotonic() + more
        for descriptor, _ in events:
            if answering and descriptor == answering.failed:
                return
            if answering and descriptor == asked:
                if not answering.readable():
                    poller.unregister(descriptor)
            elif not (exchange.write() if descriptor == exchange.writer else exchange.read(descriptor)):
                poller.unregister(descriptor)
                exchange.finish(descriptor)
