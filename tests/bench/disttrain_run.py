# SPDX-License-Identifier: Apache-2.0
"""disttrain_run.py - a run of disttrain on one host, of a given configuration.
"""
import json
import re
import subprocess
import sys


def train(args, work, config, **values):
    """Trains with a template of config.yaml, filled from args and values;
    returns what was printed, and the lines of the metrics, in work."""
    values = {**vars(args), "dir": work, "total": args.warmup + args.steps,
              **values}
    with open(f"{work}/config.yaml", "w", encoding="utf-8") as f:
        f.write(config.format(**values))
    run = subprocess.run([args.disttrain, "train", f"{work}/config.yaml"],
                         stdout=subprocess.PIPE, text=True, check=False)
    sys.stderr.write(run.stdout)
    if run.returncode != 0:
        sys.exit(f"{sys.argv[0]}: disttrain: exit status {run.returncode}")
    with open(f"{work}/metrics.jsonl", encoding="utf-8") as f:
        return run.stdout, [json.loads(line) for line in f]


def peak_mb(output):
    """Of rank 0, in MiB, as the last lines of a run say it."""
    peak = re.search(r"peak memory of rank 0 ([0-9.]+) ([GM])iB", output)
    return round(float(peak[1]) * (1024 if peak[2] == "G" else 1))
