#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""trial_sinks.py - do TensorBoard and wandb take what a run has written?

    python3 -m venv V && V/bin/pip install tensorboard wandb
    V/bin/python tests/parity/trial_sinks.py BUILD/disttrain

Trains a small model, kills the run three times with SIGKILL and resumes it, and compares metrics.jsonl with what
these have, step by step: both of TensorBoard's Python readers, its server in Rust (--load_fast=true) over HTTP, and
the server of Weights & Biases, which this script is: contrib/wandb-follow sends there, with the client of wandb, what
each of the first starts has left, and follows the last one. At the end it writes the whole run offline, and `wandb
sync` takes that. Not part of `make check`: it needs Python.
"""

import glob
import gzip
import http.server
import json
import math
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
import urllib.parse
import urllib.request

from tensorboard.backend.event_processing import event_accumulator, plugin_event_accumulator

CONFIG = """algorithm: sft
run: {name: t}
model: {n_embd: 32, n_layer: 2, n_head: 2}
data: {train: train.txt, max_length: 32, validation_split: 0.1}
training: {per_device_batch_size: 2, max_steps: %d, eval_strategy: steps, eval_steps: 50, resume: auto}
optimizer: {lr: 1.0e-3}
checkpoint: {steps: 50}
logging: {steps: 2, report_to: all, wandb: {project: trial}}
"""
LOGS = "outputs/t/logs"
RUN = LOGS + "/run.json"
FOLLOW = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../contrib/wandb-follow")
BIN = os.path.dirname(sys.executable)


def train(disttrain, kill_after):
    """Runs until it ends, or until it has written kill_after more lines and is killed."""
    def lines():
        metrics = LOGS + "/metrics.jsonl"
        return sum(1 for _ in open(metrics)) if os.path.exists(metrics) else 0

    while True:
        before = lines()
        run = subprocess.Popen([disttrain, "train", "t.yaml"], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        while kill_after and run.poll() is None and lines() < before + kill_after:
            time.sleep(0.05)
        if run.poll() is None and kill_after:
            run.send_signal(signal.SIGKILL)
        error = run.communicate()[1].decode()
        if "another run writes" not in error:  # the owner that was killed is waited for
            assert kill_after or run.returncode == 0, error
            return


def expected():
    """The points of each tag of interest by metrics.jsonl."""
    points = {"train/loss": [], "eval/loss": [], "train/grad_norm": []}
    for line in open(LOGS + "/metrics.jsonl"):
        m = json.loads(line)
        for name in ("loss", "grad_norm"):
            if m.get(name) is not None:
                points.setdefault(m["split"] + "/" + name, []).append((m["step"], m[name]))
    return points


def compare(what, got, want):
    same = len(got) == len(want) and all(
        a[0] == b[0] and math.isclose(a[1], b[1], rel_tol=1e-6) for a, b in zip(got, want))
    print(f"{'ok' if same else 'NOT OK'}: {what}: {len(got)} points, {len(want)} expected")
    return same


def python_readers(want):
    classic = event_accumulator.EventAccumulator(LOGS + "/tb", size_guidance={"scalars": 0})
    plugin = plugin_event_accumulator.EventAccumulator(LOGS + "/tb", tensor_size_guidance={"scalars": 0})
    classic.Reload()
    plugin.Reload()
    good = True
    for tag, points in want.items():
        good &= compare("EventAccumulator " + tag, [(e.step, e.value) for e in classic.Scalars(tag)], points)
        values = [(e.step, e.tensor_proto.float_val[0]) for e in plugin.Tensors(tag)]
        good &= compare("plugin reader " + tag, values, points)
    return good


def fetch(url):
    with urllib.request.urlopen(url, timeout=10) as answer:
        return json.load(answer)


def rust_server(want):
    port = random.randrange(20000, 30000)
    server = subprocess.Popen(
        [BIN + "/tensorboard", "--logdir", LOGS, "--load_fast=true", "--port", str(port), "--reload_interval", "1",
         "--samples_per_plugin", "scalars=100000"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    url = f"http://127.0.0.1:{port}/data/plugin/scalars/"
    good = False
    try:
        for _ in range(100):
            time.sleep(0.5)
            try:
                if "train/loss" in fetch(url + "tags").get("tb", {}):
                    break
            except OSError:
                pass
        time.sleep(3)
        good = True
        for tag, points in want.items():
            values = fetch(url + "scalars?" + urllib.parse.urlencode({"tag": tag, "run": "tb"}))
            good &= compare("Rust server " + tag, [(v[1], v[2]) for v in values], points)
    finally:
        server.terminate()
        server.wait()
    return good


class Upload(http.server.BaseHTTPRequestHandler):
    """As much of the server of Weights & Biases as its client asks for: one run."""

    history, exits, summary, config = [], [], {}, None

    def log_message(self, *_):
        pass

    def answer(self, value):
        body = json.dumps(value).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if self.headers.get("Content-Encoding") == "gzip":
            body = gzip.decompress(body)
        if self.path.endswith("/file_stream"):
            sent = json.loads(body)
            for name, part in (sent.get("files") or {}).items():
                if "history" in name:
                    Upload.history[part["offset"]:] = [json.loads(line) for line in part["content"]]
                if "summary" in name:
                    Upload.summary = json.loads(part["content"][-1])
            if sent.get("complete"):
                Upload.exits.append(sent.get("exitcode"))
            return self.answer({"exitcode": None, "limits": {}})
        if not self.path.endswith("/graphql"):
            return self.answer({})
        variables = json.loads(body).get("variables") or {}
        there = Upload.config is not None
        bucket = {"id": "r", "name": variables.get("name"), "displayName": "t", "config": json.dumps(Upload.config or {}),
                  "historyLineCount": len(Upload.history), "eventsLineCount": 0, "logLineCount": 0,
                  "summaryMetrics": json.dumps(Upload.summary), "historyTail": json.dumps(
                      [json.dumps(row) for row in Upload.history[-1:]]), "eventsTail": "[]",
                  "wandbConfig": json.dumps({"t": 1}), "tags": [], "notes": None,
                  "project": {"id": "p", "name": "trial", "entity": {"id": "e", "name": "me"}}}
        if variables.get("config"):
            Upload.config = json.loads(variables["config"])
        return self.answer({"data": {
            "viewer": {"id": "u", "entity": "me", "username": "me", "flags": "{}", "teams": {"edges": []}},
            "serverInfo": {"features": []}, "project": {"run": None},
            "model": {"id": "m", "name": "trial", "entity": {"id": "e", "name": "me"},
                      "bucket": bucket if there else None},
            "upsertBucket": {"bucket": bucket, "inserted": not there},
            "createRunFiles": {"runID": "r", "uploadHeaders": [], "files": []}}})


def serve():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Upload)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    os.environ.update(HOME=os.getcwd(), WANDB_API_KEY="0" * 40,
                      WANDB_BASE_URL=f"http://127.0.0.1:{server.server_address[1]}")


def follow(*options, **given):
    return subprocess.Popen([sys.executable, FOLLOW, *options, LOGS], stderr=subprocess.DEVNULL, **given)


def compare_upload(what, want, status):
    """Steps that a resumed run has repeated are there more than once: the last one counts."""
    rows = Upload.history
    good = [row["_step"] for row in rows] == list(range(len(rows)))
    for tag, points in want.items():
        got = {row["train/global_step"]: row[tag] for row in rows if tag in row}
        good &= compare(f"{what} {tag}", sorted(got.items()), points)
    lr = Upload.config.get("optimizer", {}).get("value", {}).get("lr")
    good &= Upload.exits[-1] == status and lr is not None
    print(f"{'ok' if good else 'NOT OK'}: {what}: {len(rows)} lines, exit codes {Upload.exits}, optimizer.lr {lr}")
    return good


def wandb_sync(want):
    Upload.history, Upload.summary, Upload.config = [], {}, None
    follow(env=dict(os.environ, WANDB_MODE="offline", WANDB_DIR="offline")).wait(timeout=120)
    runs = glob.glob("offline/wandb/offline-run-*")
    assert len(runs) == 1, runs
    done = subprocess.run([BIN + "/wandb", "sync", runs[0]], capture_output=True, text=True, timeout=120)
    print(f"{'NOT OK' if done.returncode else 'ok'}: wandb sync took the directory")
    return done.returncode == 0 and compare_upload("wandb sync", want, 0)


def main():
    disttrain = os.path.abspath(sys.argv[1])
    os.chdir(tempfile.mkdtemp(prefix="dt-sinks-"))
    text = random.Random(17)
    with open("train.txt", "w", encoding="ascii") as file:
        file.write("".join(text.choice("abcdefgh \n") for _ in range(20000)))
    with open("t.yaml", "w", encoding="ascii") as file:
        file.write(CONFIG % 600)
    os.makedirs("offline")
    serve()
    for _ in range(3):
        train(disttrain, 60)
        follow("--once").wait(timeout=120)
    want = expected()
    good = python_readers(want)  # of a run that was killed
    good &= compare_upload("wandb-follow --once", want, 0)
    repeated = len(Upload.history)
    live = threading.Thread(target=train, args=(disttrain, 0))
    live.start()
    while json.load(open(LOGS + "/status.json"))["status"] != "running" or len(json.load(open(RUN))["starts"]) < 4:
        time.sleep(0.05)
    follow().wait(timeout=120)
    live.join()
    want = expected()
    print(f"# {repeated} lines were there before the last start, {len(Upload.history)} after it")
    good &= python_readers(want)
    good &= rust_server(want)
    good &= compare_upload("wandb-follow", want, 0)
    good &= wandb_sync(want)
    print("all good" if good else f"see {os.getcwd()}")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
