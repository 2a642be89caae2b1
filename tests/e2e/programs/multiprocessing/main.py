"""Pools by each start method, a manager, shared memory, locks and queues, futures."""
import concurrent.futures
import multiprocessing
import os
from multiprocessing import managers, shared_memory, synchronize


def square(number):
    return number * number


def add(total, lock: synchronize.Lock, times):
    for _ in range(times):
        with lock:
            total.value += 1


def fill(name, start):
    memory = shared_memory.SharedMemory(name)
    for index in range(start, len(memory.buf), 4):
        memory.buf[index] = start
    memory.close()


def serve(queue, answers):
    while (word := queue.get()) is not None:
        answers.put(word.upper())


def fail(number):
    raise ValueError(f"no {number}")


def main():
    for method in ("fork", "spawn", "forkserver"):
        context = multiprocessing.get_context(method)
        with context.Pool(3) as pool:
            print(method, sum(pool.map(square, range(200), chunksize=7)), sorted(pool.imap_unordered(square, range(5))))
            try:
                pool.apply(fail, (3,))
            except ValueError as error:
                print(method, "raised", error)
        total, lock = context.Value("i", 0), context.Lock()
        workers = [context.Process(target=add, args=(total, lock, 500)) for _ in range(3)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        print(method, "counted", total.value, [worker.exitcode for worker in workers])

    memory = shared_memory.SharedMemory(create=True, size=4000)
    workers = [multiprocessing.Process(target=fill, args=(memory.name, start)) for start in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    print("shared", sum(memory.buf))
    memory.close()
    memory.unlink()
    with managers.SharedMemoryManager() as manager:
        print("list", list(manager.ShareableList([1, "two", 3.0])))

    with multiprocessing.Manager() as manager:
        words = manager.dict()
        workers = [multiprocessing.Process(target=words.update, args=({index: index * 2},)) for index in range(4)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        print("manager", dict(sorted(words.items())))

    queue, answers = multiprocessing.Queue(), multiprocessing.SimpleQueue()
    server = multiprocessing.Process(target=serve, args=(queue, answers))
    server.start()
    for word in ("a", "b", None):
        queue.put(word)
    print("queue", [answers.get(), answers.get()])
    server.join()

    left, right = multiprocessing.Pipe()
    server = multiprocessing.Process(target=lambda: right.send(os.getpid()))
    server.start()
    print("pipe", left.recv() == server.pid)
    server.terminate()
    server.join()

    with concurrent.futures.ProcessPoolExecutor(2) as executor:
        print("futures", list(executor.map(square, range(10))))


if __name__ == "__main__":
    main()
