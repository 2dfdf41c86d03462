#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# see.sh - what it costs to see a run: sinks, and traces
#
# Usage: see.sh [--rounds N]
#
# A round is a pair of runs at the same time, whose steps take 100 ms since they
# mostly sleep: one reports each step to all sinks, the other each fiftieth to
# stdout alone. What they differ by in CPU time is what sinks cost, and is
# steadier than wall time. Then a run of steps as short as they get, of many
# small units, is traced now and then. Prints medians. Needs disttrain that was
# configured with --enable-fault-injection.

set -euo pipefail

# shellcheck source=tests/bench/common.bash
. "$(dirname "$0")/common.bash"

rounds=4
while [[ ${1-} == --* ]]; do
    (($# > 1)) || die "$1 needs a value"
    case $1 in
    --rounds) rounds=$2 ;;
    *) die "there is no option $1" ;;
    esac
    shift 2
done

export OMP_NUM_THREADS=1
seq -f 'This is line %g of a text.' 20000 >"$work/train.txt"
cd "$work"

# config NAME LAYERS STEPS LOGGING
config() {
    cat >"$1.yaml" <<END
algorithm: sft
run: {output_dir: $1.out, overwrite: true}
model: {n_positions: 32, n_embd: 32, n_layer: $2, n_head: 2}
data: {train: train.txt, max_length: 32}
training: {per_device_batch_size: 1, max_steps: $3}
checkpoint.strategy: "no"
logging: {$4}
END
}

mkdir prometheus
config all 2 200 "steps: 1, report_to: all, prometheus: prometheus"
config none 2 200 "steps: 50, report_to: [stdout]"
config traced 12 1000000 "steps: 100"

python3 - "$builddir/disttrain" "$rounds" <<'END'
import glob
import os
import re
import statistics
import subprocess
import sys
import threading
import time

program, rounds = sys.argv[1], int(sys.argv[2])


def cpu_of(pid):
    """Seconds of all threads, by the scheduler, to the nanosecond."""
    return sum(int(open(task).read().split()[0])
               for task in glob.glob(f"/proc/{pid}/task/*/schedstat")) / 1e9


class Run:
    """A run, and its CPU and wall time at each step that it prints."""

    def __init__(self, name, **env):
        self.at = {}
        self.process = subprocess.Popen(
            [program, "train", name + ".yaml"], stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True, env={**os.environ, **env})
        self.thread = threading.Thread(target=self.read)
        self.thread.start()

    def read(self):
        for line in self.process.stdout:
            step = re.search(r"step (\d+)/", line)
            if step:
                self.at[int(step[1])] = (cpu_of(self.process.pid), time.monotonic())

    def between(self, first, last):
        """Milliseconds of a step: CPU, wall."""
        return [1e3 * (b - a) / (last - first)
                for a, b in zip(self.at[first], self.at[last])]


def row(what, numbers):
    cpu, wall = (statistics.median(column) for column in zip(*numbers))
    print(f"| {what} | {len(numbers)} | {cpu:.3f} | {wall:.3f} |")
    return cpu, wall


def sinks():
    numbers = {"all": [], "none": []}
    for _ in range(rounds):
        runs = {name: Run(name, DISTTRAIN_FAULT="train.forward:sleep=33")
                for name in numbers}
        for name, run in runs.items():
            run.thread.join()
            assert run.process.wait() == 0, name
            numbers[name].append(run.between(50, 150))
    every, none = row("all sinks, each step", numbers["all"]), row("stdout, each 50th step", numbers["none"])
    return (f"sinks: {every[0] - none[0]:.3f} ms of CPU time a step, {(every[0] - none[0]) / none[1]:.2%}; "
            f"wall {every[1] / none[1] - 1:+.2%}")


def traces(count=8, steps=400):
    run, traced = Run("traced"), set()
    while max(run.at, default=0) < 1000:
        time.sleep(0.1)
    for _ in range(count):
        name = subprocess.run([program, "trace", "traced.out", "--steps", str(steps)],
                              check=True, capture_output=True, text=True).stdout
        first = int(re.search(r"trace-(\d+)", name)[1])
        traced.update(range(first, first + steps))
        end = max(run.at) + steps + 200
        while max(run.at) < end:
            time.sleep(0.05)
    run.process.terminate()
    run.thread.join()
    numbers = {True: [], False: []}
    for end in sorted(run.at)[10:]:
        # of these steps, all are traced or none is, and no trace begins or ends
        window = [step in traced for step in range(end - 100, end + 2)]
        if end - 100 in run.at and len(set(window)) == 1:
            numbers[window[0]].append(run.between(end - 100, end))
    on, off = row("traced", numbers[True]), row("not traced", numbers[False])
    return (f"traces: {1e3 * (on[0] - off[0]):.1f} us of CPU time a step, {on[0] / off[0] - 1:+.2%}; "
            f"wall {on[1] / off[1] - 1:+.2%}")


print("| steps of | times | CPU ms | wall ms |\n|---|--:|--:|--:|")
said = [sinks(), traces()]
print("\n" + "\n".join(said))
END
