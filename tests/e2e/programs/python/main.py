"""A data script: it reads, computes in a pool of processes, writes, runs a program and makes temporary files."""
import csv
import json
import multiprocessing
import os
import pathlib
import shutil
import sqlite3
import subprocess
import tempfile
import threading

import helper


def main():
    with open("numbers.csv", "w", newline="") as table:
        csv.writer(table).writerows([n, helper.square(n)] for n in range(100))
    with open("numbers.csv", newline="") as table:
        print("sum", sum(int(row[1]) for row in csv.reader(table)))

    with multiprocessing.Pool(2) as pool:
        print("pool", sum(pool.map(helper.square, range(50))))
    counted = []
    threads = [threading.Thread(target=lambda n=n: counted.append(os.path.getsize("main.py") and n)) for n in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print("threads", sorted(counted))

    with tempfile.TemporaryDirectory() as place:
        pathlib.Path(place, "x").write_bytes(b"x" * 5000)
        shutil.copytree(place, "copied")
    with tempfile.TemporaryFile() as unnamed:
        unnamed.write(b"unnamed")
        print("unnamed", unnamed.tell())
    print("child", subprocess.run(["sort", "-r"], input="a\nc\nb\n", text=True, capture_output=True, check=True).stdout.split())

    with sqlite3.connect(":memory:") as database:
        print("sqlite", database.execute("select 6 * 7").fetchone()[0])
    try:
        open("missing/file")
    except OSError as error:
        print("missing", error)
    try:
        open("/")
    except OSError as error:
        print("directory", error)
    os.makedirs("deep/er/est")
    os.symlink("../../numbers.csv", "deep/er/link")
    os.link("numbers.csv", "deep/hard")
    os.rename("deep/er", "deep/renamed")
    os.chmod("deep/hard", 0o600)
    os.utime("deep/hard", (1e9, 1e9))
    os.truncate("copied/x", 10)
    print("walk", sorted(str(one) for one in pathlib.Path("deep").rglob("*")))
    shutil.rmtree("deep/renamed/est")
    json.dump({"done": True}, open("result.json", "w"))


if __name__ == "__main__":
    main()
