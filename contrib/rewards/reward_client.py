# SPDX-License-Identifier: Apache-2.0
"""A client of `disttrain reward serve`, for programs that train by themselves.

    disttrain reward serve rewards.yaml --listen unix:/tmp/rewards &

    with RewardClient("/tmp/rewards") as client:      # on rank 0
        rewards, channels = client.score(prompts, completions, columns)

Then broadcast the lists to the other ranks. rewards[i] is the weighted sum of
the channels, None where there is no reward.
"""

import json
import socket


class RewardError(RuntimeError):
    """The server says what is wrong, or it does not answer."""


class RewardClient:
    def __init__(self, path, timeout_s=600):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(timeout_s)
        self.socket.connect(path)
        self.lines = self.socket.makefile("r", encoding="utf-8")
        self.id = 0
        self.columns = self._ask({"disttrain_reward": 1})["columns"]

    def score(self, prompts, completions, columns=None, step=0):
        """The rewards of completions, and a dictionary of those by channel."""
        self.id += 1
        samples = [
            {"index": i, "prompt": prompt, "completion": completion}
            for i, (prompt, completion) in enumerate(zip(prompts, completions))
        ]
        for sample, other in zip(samples, columns or []):
            sample["columns"] = other
        reply = self._ask({"id": self.id, "step": step, "samples": samples})
        if reply.get("id") != self.id or len(reply["rewards"]) != len(samples):
            raise RewardError("the answer belongs to another request")
        return reply["rewards"], reply["channels"]

    def _ask(self, message):
        try:
            self.socket.sendall(json.dumps(message).encode() + b"\n")
            line = self.lines.readline()
        except OSError as error:
            raise RewardError("no answer: {}".format(error)) from error
        if not line:
            raise RewardError("the server has ended: its log says why")
        reply = json.loads(line)
        if "error" in reply:
            raise RewardError(reply["error"])
        return reply

    def close(self):
        self.lines.close()
        self.socket.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
