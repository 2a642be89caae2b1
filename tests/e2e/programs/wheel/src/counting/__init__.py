import sys

from counting.fast import add


def main():
    print("counted", sum(add(int(one), 1) for one in sys.argv[1:]))
