#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A program of reward.functions that does in step STEP what MODE says.

    judge.py MODE STEP [once]

With `once` only the first process does, which leaves the file `once`. The
reward is the share of printable characters.
"""

import json
import os
import signal
import sys
import time

REPLIES = {
    "garbage": "Loading weights ...",
    "nan": '{"id": %d, "rewards": [NaN]}',
    "few": '{"id": %d, "rewards": []}',
    "other": '{"id": 0, "rewards": []}',
    "error": '{"error": "no judge is left"}',
}


def misbehave(mode, request):
    """Returns True if the request is to be answered well, too."""
    if mode in REPLIES:
        reply = REPLIES[mode]
        print(reply % request["id"] if "%" in reply else reply, flush=True)
    elif mode == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    elif mode == "stopped":
        os.kill(os.getpid(), signal.SIGSTOP)
    elif mode == "exits":
        sys.exit("ValueError: no")
    elif mode == "silent":
        os.close(1)
        time.sleep(600)
    elif mode == "slow":
        time.sleep(1)
        return True
    else:
        time.sleep(600)  # hangs
    return False


def begins(path):
    """Whether this is the first process."""
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return False
    return True


def main():
    mode, step = sys.argv[1], int(sys.argv[2])
    once = len(sys.argv) > 3
    sys.stdin.readline()
    print('{"ready": true, "abi": 1}', flush=True)
    for line in sys.stdin:
        request = json.loads(line)
        if mode != "well" and request["step"] == step and \
                (not once or begins("once")) and not misbehave(mode, request):
            continue
        texts = [s["completion"] for s in request["samples"]]
        rewards = [sum(" " <= c <= "~" for c in t) / max(len(t), 1)
                   for t in texts]
        print(json.dumps({"id": request["id"], "rewards": rewards}),
              flush=True)


if __name__ == "__main__":
    main()
