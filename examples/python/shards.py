"""Each rank works on its part of a data set: gpurun -n 3 python shards.py

Rank 0 knows the names of the files, and scatters them. Each rank counts the words of its own ones; the counts are
gathered as objects. gpurun has bound each rank to its cores, so each uses as many threads as it has.
"""
import collections
import concurrent.futures
import os

import gpurun

FILES = {f"file {number}": "the quick brown fox jumps over the lazy dog " * number for number in range(1, 11)}


def count(name):
    return collections.Counter(FILES[name].split())


def main():
    comm = gpurun.init()
    names = sorted(FILES)
    mine = comm.scatter_object([names[rank :: comm.size] for rank in range(comm.size)] if comm.rank == 0 else None)

    threads = len(os.sched_getaffinity(0))
    with concurrent.futures.ThreadPoolExecutor(threads) as pool:
        words = sum(pool.map(count, mine), collections.Counter())

    gathered = comm.gather_object(words)
    if gathered is not None:
        total = sum(gathered, collections.Counter())
        assert total == sum(map(count, FILES), collections.Counter()), "not what one rank alone counts"
        print(f"{comm.size} ranks counted {total.total()} words, 'the' {total['the']} times")


if __name__ == "__main__":
    main()
