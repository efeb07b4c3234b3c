"""A parameter server: workers compute gradients over their own samples, and the server adds them to the weights and
answers each worker with the newest: python parameter_server.py [WORKERS]

The processes hand arrays to each other through a queue and pipes of gpurun.multiprocessing. One worker is killed
half-way, and the others find the model: nobody waits for it.
"""
import sys

import numpy

import gpurun
from gpurun.multiprocessing import Pipe, Process, Queue

FEATURES, SAMPLES, RATE, STEPS = 10, 1000, 0.05, 900
MODEL = numpy.arange(FEATURES) - 5.0  # what all are to find


def work(number, gradients, answers):
    inputs = numpy.random.default_rng(number).uniform(-1, 1, (SAMPLES, FEATURES))
    results = inputs @ MODEL
    weights = numpy.zeros(FEATURES)
    while weights is not None:
        error = inputs @ weights - results
        gradients.put((number, 2 / SAMPLES * (inputs.T @ error)))
        weights = answers.recv()


def serve(gradients, answers, workers):
    """Until there were enough steps. A worker that has died is named, and no longer answered."""
    weights = numpy.zeros(FEATURES)
    for step in range(STEPS):
        if step == STEPS // 2 and len(workers) > 1:
            workers[0].kill()
        number = None
        while number is None:
            try:
                number, gradient = gradients.get()
            except gpurun.PeerLostError as error:
                print(error)
        weights -= RATE * gradient
        try:
            answers[number].send(weights)
        except (gpurun.PeerLostError, BrokenPipeError):
            pass  # what it has computed before it died counts
    return weights


def main():
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 3
    gradients, answers, workers = Queue(maxsize=count), [], []
    for number in range(count):
        ours, theirs = Pipe()
        workers.append(Process(target=work, args=(number, gradients, theirs)))
        workers[-1].start()
        theirs.close()
        answers.append(ours)
    weights = serve(gradients, answers, workers)
    for worker, end in zip(workers, answers):
        try:
            end.send(None)
        except (gpurun.PeerLostError, BrokenPipeError):
            pass
    for worker in workers:
        while worker.is_alive():
            if not gradients.empty():
                gradients.get()  # of a worker that had one more
            worker.join(0.01)
    worst = max(abs(weights - MODEL))
    assert worst < 0.01, f"a weight is wrong by {worst}"
    print(f"{count} workers have found the model, to {worst:.6f}")


if __name__ == "__main__":
    main()
