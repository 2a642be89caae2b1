"""A program as an agent might write it: honest work in its directory, then two reaches beyond it.

Called by demo/run.sh with the port of a loopback server that no rule allows.
"""
import csv
import json
import os
import statistics
import sys
import urllib.error
import urllib.request

with open("measurements.csv", newline="", encoding="utf-8") as table:
    values = [float(row["milliseconds"]) for row in csv.DictReader(table)]
result = {"count": len(values), "mean": round(statistics.mean(values), 2), "worst": max(values)}
with open("result.json", "w", encoding="utf-8") as output:
    json.dump(result, output)
print("the work is done:", json.dumps(result))

try:
    with open(os.path.expanduser("~/.ssh/id_ed25519"), encoding="utf-8") as key:
        print("it read the key:", key.readline().strip())
except OSError as error:
    print("the key:", error)

try:
    address = f"http://127.0.0.1:{int(sys.argv[1])}/?mean={result['mean']}"
    with urllib.request.urlopen(address, timeout=5) as answer:
        print("it reached the server:", answer.status)
except urllib.error.URLError as error:
    print("the server:", error.reason)
