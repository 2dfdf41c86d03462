# SPDX-License-Identifier: Apache-2.0
"""wandb_client.py - takes the place of the client of Weights & Biases

Writes its calls to $CALLS, a line each, and knows the last line of earlier
calls, as the server does of a run that is resumed.
"""

import json
import os

KNOWN = os.environ["CALLS"] + ".known"


class Error(Exception):
    pass


def note(name, value):
    with open(os.environ["CALLS"], "a", encoding="utf-8") as calls:
        calls.write(name + " " + json.dumps(value, sort_keys=True) + "\n")


def Settings(**given):
    return given


class Run:
    def __init__(self, id):
        self.id, self.config, self.summary = id, self, {}
        if os.path.exists(KNOWN):
            with open(KNOWN, encoding="utf-8") as known:
                self.summary = json.load(known)

    def update(self, config, allow_val_change):
        note("config", config)

    def define_metric(self, name, **given):
        note("metric", [name, given])

    def log(self, values):
        note("log", values)
        with open(KNOWN, "w", encoding="utf-8") as known:
            json.dump(values, known)

    def finish(self, exit_code):
        note("finish", exit_code)


def init(**given):
    if "NO_LOGIN" in os.environ:
        raise Error("No API key configured. Use `wandb login` to log in.")
    note("init", {key: value for key, value in given.items() if value is not None})
    return Run(given["id"])
