#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Loses ranks and rewards of runs that sample completions.

Each case is a run of algorithm grpo or ppo on two ranks, to which a program
gives rewards. A rank or the program is killed or stopped, or the program
answers wrongly, at times that the seed chooses. The run has to go on, or to end
in time and say why; no process may be left; and what was cut resumes to the
weights of a run that nothing happened to, bit for bit. Prints a table, whose
last column is "ok" for a case that went as promised, and exits with 1 if
another has not.

Needs mpirun, and `disttrain` of $DT_BUILDDIR, or of the PATH, that was
configured with --enable-fault-injection. All cases take about six minutes on
two CPUs.
"""

import argparse
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

STEPS = 12      # of a run
PATIENCE = 8    # seconds that a rank or a request is waited for
MOST = 120      # seconds that a run may take
USES = {"grpo": 2, "ppo": 4}  # steps that learn from a generation
KEYS = {
    "grpo": "grpo: {num_generations: 4, num_iterations: 2}",
    "ppo": "ppo: {epochs: 2, num_mini_batches: 2}",
}
CONFIG = """\
algorithm: {algorithm}
run: {{name: {name}, output_dir: {name}.out}}
model: {{n_positions: 32, n_embd: 16, n_layer: 1, n_head: 2}}
data: {{train: prompts.jsonl, max_length: 16, max_prompt_length: 4}}
rollout: {{max_completion_length: 8}}
{keys}
reward: {{functions: [{{type: command, name: judge, timeout_s: {patience},
  command: [python3, {judge}], {more}}}]}}
training: {{train_batch_size: 16, max_steps: {steps}, resume: auto}}
distributed.timeout_s: {patience}
checkpoint: {{steps: 1, total_limit: 2}}
optimizer: {{lr: 1.0e-2}}
logging: {{steps: 1}}
"""
FILES = ("model.safetensors", "optim-rank-00000-of-00002.safetensors",
         "optim-rank-00001-of-00002.safetensors", "alignment.json")

# What the log has to say, by what happens.
LOST = r"(lost rank \d.*|rank \d on \S+ did not answer .*)"
JUDGE = r"(reward judge: .*)"
STOPPED = r"(stopped by a signal .*)"

here = os.path.dirname(os.path.abspath(__file__))
program = os.path.join(os.environ["DT_BUILDDIR"], "disttrain") \
    if "DT_BUILDDIR" in os.environ else shutil.which("disttrain")


class Case:
    """What happens to a run, and what it has to do then."""

    def __init__(self, algorithm, what, fault="", judge="well 0", more="",
                 strikes=None, wanted=None, same=True):
        self.algorithm, self.what, self.fault = algorithm, what, fault
        self.judge, self.more = judge, more
        self.strikes = strikes  # (signal, "rank" or "judge.py")
        self.wanted = wanted    # what the log says if it ends; None: it goes on
        self.same = same        # as the bits of an undisturbed run


def cases(dice):
    """All of them, in steps and ranks of the dice."""
    both = list(USES)
    some = []
    for algorithm in both:
        first = 1 + USES[algorithm]  # the second generation
        for point in "rollout", "scoring", "train.step":
            for rank in 0, 1:
                step = dice.randint(2, STEPS) if point == "train.step" \
                    else first
                some.append(Case(
                    algorithm, f"rank {rank} is killed: {point}, step {step}",
                    f"{point}:rank={rank}:step={step}:kill", wanted=LOST))
            rank, step = dice.randint(0, 1), first
            some.append(Case(
                algorithm, f"rank {rank} is stopped: {point}, step {step}",
                f"{point}:rank={rank}:step={step}:stop", wanted=LOST))
        for _ in range(4):
            some.append(Case(algorithm, "a rank is killed at any time",
                             strikes=(signal.SIGKILL, "rank"), wanted=LOST))
        for _ in range(3):
            some.append(Case(algorithm, "a rank is told to stop at any time",
                             strikes=(signal.SIGTERM, "rank"),
                             wanted=STOPPED))
        some.append(Case(algorithm, "a rank is killed, the program hangs",
                         judge=f"hangs {first}",
                         strikes=(signal.SIGKILL, "rank"), wanted=LOST))
        some.append(Case(algorithm, "a rank is told to stop, it hangs",
                         judge=f"hangs {first}",
                         strikes=(signal.SIGTERM, "rank"), wanted=STOPPED))
        some.append(Case(algorithm, "the program is killed at any time",
                         strikes=(signal.SIGKILL, "judge.py")))
        some.append(Case(algorithm, "the program is stopped at any time",
                         strikes=(signal.SIGSTOP, "judge.py")))
    for i, mode in enumerate(("killed", "stopped", "exits", "silent", "hangs",
                              "garbage", "nan", "few", "other", "error")):
        algorithm = both[i % 2]
        step = 1 + USES[algorithm]
        some.append(Case(algorithm, f"the program once: {mode}",
                         judge=f"{mode} {step} once", more="retries: 1"))
        algorithm = both[(i + 1) % 2]
        step = 1 + USES[algorithm]
        some.append(Case(algorithm, f"the program always: {mode}",
                         judge=f"{mode} {step}", more="retries: 1",
                         wanted=JUDGE))
    for algorithm in both:
        step = 1 + USES[algorithm]
        some.append(Case(algorithm, "the program is slow",
                         judge=f"slow {step}"))
        nan = "retries: 0, on_error: nan, max_failed: 1"
        some.append(Case(algorithm, "a quarter has no rewards, as is allowed",
                         judge=f"exits {step} once", same=False,
                         more=f"{nan}, batch_size: 4"))
        some.append(Case(algorithm, "none has a reward, as is allowed",
                         judge=f"exits {step}", more=nan, same=False,
                         wanted=r"(E135 .*)" if algorithm == "ppo" else None))
    return some


def configure(name, algorithm, judge="well 0", more=""):
    path = os.path.join(os.getcwd(), "judge.py")
    with open(f"{name}.yaml", "w") as file:
        file.write(CONFIG.format(
            algorithm=algorithm, name=name, keys=KEYS[algorithm],
            judge=", ".join([path] + judge.split()), more=more,
            patience=PATIENCE, steps=STEPS))


def start(name, fault=""):
    """Starts a run of two ranks, which writes its log to NAME.log."""
    env = dict(os.environ, OMP_NUM_THREADS="1", DISTTRAIN_FAULT=fault)
    if not fault:
        del env["DISTTRAIN_FAULT"]
    with open(f"{name}.log", "w") as log:
        return subprocess.Popen(
            ["mpirun", "--allow-run-as-root", "--oversubscribe", "-n", "2",
             program, "train", os.path.join(os.getcwd(), f"{name}.yaml")],
            stdout=log, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
            env=env, start_new_session=True)


def finish(run):
    """The exit status, or "late"; then all of it is ended."""
    try:
        return run.wait(MOST)
    except subprocess.TimeoutExpired:
        os.killpg(run.pid, signal.SIGKILL)
        run.wait()
        return "late"


def processes(word):
    """Those of the runs here whose arguments have this word, but mpirun's."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as file:
                arguments = file.read().decode(errors="replace").split("\0")
        except OSError:
            continue
        text = " ".join(arguments)
        if os.getcwd() + "/" in text and word in text and \
                not arguments[0].endswith("mpirun"):
            found.append(int(pid))
    return sorted(found)


def left():
    """Processes that are left, after the time that it takes to end them."""
    for _ in range(50):
        pids = processes("")
        if not pids:
            return 0
        time.sleep(0.1)
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
    return len(pids)


def strike(run, case, dice):
    """Sends a signal to a process of the run at any time after a checkpoint."""
    number, whom = case.strikes
    word = program if whom == "rank" else whom
    while run.poll() is None and \
            not os.path.exists("cut.out/checkpoints/latest"):
        time.sleep(0.01)
    time.sleep(dice.uniform(0, 0.4))
    pids = processes(word)
    if run.poll() is None and pids:
        os.kill(dice.choice(pids), number)


def same(algorithm):
    """Whether the run has the bits of the undisturbed one."""
    for name in FILES:
        bytes_of = []
        for run in algorithm, "cut":
            try:
                with open(f"{run}.out/checkpoints/latest/{name}", "rb") as file:
                    bytes_of.append(file.read())
            except OSError:
                return False
        if bytes_of[0] != bytes_of[1]:
            return False
    return True


def reason(wanted):
    """The words of the log that say why the run ended."""
    with open("cut.log", errors="replace") as file:
        found = re.search(wanted, file.read())
    return found.group(1)[:80] if found else None


def is_done():
    with open("cut.log", errors="replace") as file:
        return "done: " in file.read()


def begin(case, dice):
    """Runs a case to its end; the exit status. A run that a signal was too late
    for is repeated.
    """
    for _ in range(10):
        shutil.rmtree("cut.out", ignore_errors=True)
        if os.path.exists("once"):
            os.unlink("once")
        configure("cut", case.algorithm, case.judge, case.more)
        run = start("cut", case.fault)
        if case.strikes:
            strike(run, case, dice)
        status = finish(run)
        if not (case.strikes and case.wanted and is_done()):
            break
    return status


def try_case(case, dice):
    """Runs a case; what happened, and what is wrong."""
    before = time.monotonic()
    status = begin(case, dice)
    seconds = time.monotonic() - before
    wrong = []
    if left():
        wrong.append("processes are left")
    told = None
    if status == "late":
        wrong.append("it did not end")
    elif status and not case.wanted:
        wrong.append("it ended")
    elif status:
        told = reason(case.wanted)
        if not told:
            wrong.append("it does not say why")
    elif case.wanted:
        wrong.append("it went on")
    if status:
        shutil.copy("cut.log", "first.log")
        configure("cut", case.algorithm)
        if finish(start("cut")) != 0:
            wrong.append("it does not resume")
    if same(case.algorithm) != case.same:
        wrong.append("other bits" if case.same else "the same bits")
    return (f"{status}, {seconds:.1f} s", told or "", wrong)


def prepare(directory):
    os.chdir(directory)
    shutil.copy(os.path.join(here, "judge.py"), ".")
    with open("prompts.jsonl", "w") as file:
        for i in range(12):
            file.write(f'{{"prompt": "{i}:"}}\n')
    for algorithm in USES:
        configure(algorithm, algorithm)
        if finish(start(algorithm)) != 0:
            with open(f"{algorithm}.log") as file:
                sys.exit(file.read())


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="", metavar="REGEX",
                        help="the cases whose lines this matches")
    parser.add_argument("--keep", help="a new directory for all files")
    options = parser.parse_args()
    dice = random.Random(options.seed)
    directory = options.keep or tempfile.mkdtemp(prefix="disttrain-chaos.")
    os.makedirs(directory, exist_ok=True)
    prepare(directory)
    print("| | algorithm | what happens | status, time | it says | |")
    print("|--:|---|---|---|---|---|")
    failed = 0
    for number, case in enumerate(cases(dice), 1):
        if not re.search(options.only, f"{case.algorithm} {case.what}"):
            continue
        ended, told, wrong = try_case(case, dice)
        failed += bool(wrong)
        print(f"| {number} | {case.algorithm} | {case.what} | {ended} | "
              f"{told} | {'; '.join(wrong) or 'ok'} |", flush=True)
        if wrong and options.keep:
            for name in "cut.log", "first.log", "cut.out":
                if os.path.exists(name):
                    os.rename(name, f"{number}.{name}")
    if not options.keep:
        os.chdir("/")
        shutil.rmtree(directory)
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
