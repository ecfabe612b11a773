"""A process that has imported everything and forks a child for each process of a training run.

It reads one JSON object a line (see Launcher in conftest.py) and answers with one. A child takes a fraction
of a second to begin instead of several, so that tests can kill runs many times.
"""

import json
import os
import signal
import sys
import traceback

import torch

import prism_lm.training.loop as loop
from prism_lm.artifacts.errors import UserError
from prism_lm.training import TrainingStopped
from prism_lm.training.config import TrainingConfig
from prism_lm.training.serialise import from_dict

from . import faults


def child(order, rank):
    """One process of a run; never returns."""
    log = os.open(f"{order['log']}.{rank}", os.O_CREAT | os.O_WRONLY)
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.environ |= {"RANK": str(rank), "LOCAL_RANK": str(rank), **order["environment"]}
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        if order["fault"]:
            getattr(faults, order["fault"]["name"])(**order["fault"]["arguments"])
        loop.train(from_dict(TrainingConfig, order["config"]), resume=order["resume"])
        status = 0
    except UserError as problem:
        print(f"UserError: {problem}", flush=True)
        status = 2
    except TrainingStopped as stopped:
        print(f"TrainingStopped: {stopped}", flush=True)
        status = 130
    except BaseException:
        traceback.print_exc()
        status = 1
    sys.stdout.flush()
    os._exit(status)


def main():
    """Starts runs and waits for them, until stdin is closed."""
    torch.set_num_threads(1)
    for line in sys.stdin:
        order = json.loads(line)
        if "wait" in order:
            answer = [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in order["wait"]]
        else:
            answer = []
            for rank in range(int(order["environment"]["WORLD_SIZE"])):
                pid = os.fork()
                if pid == 0:
                    child(order, rank)
                answer.append(pid)
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
