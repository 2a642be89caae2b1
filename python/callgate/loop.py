"""Waits for a run on an asyncio event loop, without threads. Cancellation ends the tree before it goes on."""
from __future__ import annotations

import asyncio
import inspect
import time

from .exchange import GRACE, PATIENCE, Exchange
from .question import DENY, Answer, Channel, OnAsk, Question


class Answering:
    """Runs a task for each question that waits. The task of a withdrawn question is cancelled."""

    def __init__(self, channel: Channel, on_ask: OnAsk, failed: asyncio.Future[None]) -> None:
        self.channel, self.on_ask, self.failed = channel, on_ask, failed
        self.tasks: dict[int, asyncio.Task[None]] = {}

    def readable(self) -> None:
        news = self.channel.receive()
        if news is None:
            asyncio.get_running_loop().remove_reader(self.channel.ours)
            return
        for question in news[0]:
            self.tasks[question.id] = asyncio.ensure_future(self._ask(question))
        for number in news[1]:
            if task := self.tasks.pop(number, None):
                task.cancel()

    async def _ask(self, question: Question) -> None:
        try:
            said = self.on_ask(question)
            answer = Answer.of(await said if inspect.isawaitable(said) else said)
        except asyncio.CancelledError:
            self.channel.answer(question, DENY)
            raise
        except Exception as error:
            self.channel.answer(question, DENY)
            if not self.failed.done():
                self.failed.set_exception(error)
            return
        self.channel.answer(question, answer)

    async def close(self) -> None:
        for task in self.tasks.values():
            task.cancel()
        if self.tasks:
            await asyncio.wait(self.tasks.values())


async def drive(exchange: Exchange, deadline: float | None, on_ask: OnAsk | None = None) -> None:
    """Returns when the run is over. callgate itself is killed at `deadline` (monotonic seconds)."""
    loop = asyncio.get_running_loop()
    over: asyncio.Future[None] = loop.create_future()
    ending = False

    def finish() -> None:
        if not over.done():
            over.set_result(None)

    def readable(descriptor: int) -> None:
        if not exchange.read(descriptor):
            loop.remove_reader(descriptor)
            exchange.finish(descriptor)
        if exchange.ended:
            finish()
        elif exchange.lingers is not None and not ending:  # the command has ended; what it left may go on
            timers.append(loop.call_later(exchange.lingers, finish))
            exchange.lingers = None

    def writable(descriptor: int) -> None:
        if not exchange.write():
            loop.remove_writer(descriptor)
            exchange.finish(descriptor)

    def expire() -> None:
        more = exchange.expire()
        if more is None:
            finish()
        else:
            timers.append(loop.call_later(more, expire))

    for descriptor in exchange.sources:
        loop.add_reader(descriptor, readable, descriptor)
    if exchange.writer is not None:
        loop.add_writer(exchange.writer, writable, exchange.writer)
    answering = Answering(exchange.channel, on_ask, over) if exchange.channel and on_ask else None
    if answering:
        loop.add_reader(answering.channel.ours, answering.readable)
    timers = [] if deadline is None else [loop.call_later(max(0.0, deadline - time.monotonic()), expire)]
    try:
        await asyncio.wait([over])
        over.result()
    except BaseException:
        ending, over = True, loop.create_future()
        if exchange.ended:
            finish()
        exchange.terminate()
        timers.append(loop.call_later(GRACE + PATIENCE, expire))
        while not over.done():
            try:
                await asyncio.wait([over])
            except asyncio.CancelledError:  # cancelled again: end the tree at once
                exchange.kill()
        raise
    finally:
        for timer in timers:
            timer.cancel()
        for descriptor in exchange.sources:
            loop.remove_reader(descriptor)
        if exchange.writer is not None:
            loop.remove_writer(exchange.writer)
        if answering:
            loop.remove_reader(answering.channel.ours)
            await answering.close()
        exchange.close()
