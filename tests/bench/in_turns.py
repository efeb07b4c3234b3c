"""What the scripts share that run programs in turns, so that whatever else the machine does concerns all of them."""
import datetime
import os
import platform


def measure(commands, rounds, rows_of):
    """row -> name of the command -> its figures, one a round"""
    taken = {}
    for _ in range(rounds):
        for name, command in commands.items():
            for row, figure in rows_of(command).items():
                taken.setdefault(row, {}).setdefault(name, []).append(figure)
    return taken


def machine():
    return (f"{datetime.date.today()}, {platform.system()} {platform.release()} {platform.machine()}, "
            f"{len(os.sched_getaffinity(0))} processors")
