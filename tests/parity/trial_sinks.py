#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""trial_sinks.py - do TensorBoard and wandb read what a run has written?

    python3 -m venv V && V/bin/pip install tensorboard wandb
    V/bin/python tests/parity/trial_sinks.py BUILD/disttrain

Trains a small model, kills the run three times with SIGKILL and resumes it, and compares metrics.jsonl with what
these read, step by step: both of TensorBoard's Python readers, its server in Rust (--load_fast=true) over HTTP, and
`wandb sync`, which uploads to a server that this script is. Not part of `make check`: it needs Python.
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
checkpoint: {steps: 50}
logging: {steps: 2, report_to: all, wandb: {project: trial}}
"""
LOGS = "outputs/t/logs"
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
    """As much of the server of Weights & Biases as `wandb sync` asks for."""

    history, exits, configs = [], [], []

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
                    Upload.history += [json.loads(line) for line in part["content"]]
            if sent.get("complete"):
                Upload.exits.append(sent.get("exitcode"))
            return self.answer({"exitcode": None, "limits": {}})
        if not self.path.endswith("/graphql"):
            return self.answer({})
        variables = json.loads(body).get("variables") or {}
        if variables.get("config"):
            Upload.configs.append(json.loads(variables["config"]))
        bucket = {"id": "r", "name": variables.get("name"), "displayName": "t", "config": "{}", "historyLineCount": 0,
                  "eventsLineCount": 0, "logLineCount": 0, "summaryMetrics": "{}",
                  "project": {"id": "p", "name": "trial", "entity": {"id": "e", "name": "me"}}}
        return self.answer({"data": {
            "viewer": {"id": "u", "entity": "me", "username": "me", "flags": "{}", "teams": {"edges": []}},
            "serverInfo": {"features": []}, "model": {"bucket": None}, "project": {"run": None},
            "upsertBucket": {"bucket": bucket, "inserted": True},
            "createRunFiles": {"runID": "r", "uploadHeaders": [], "files": []}}})


def wandb_sync(want):
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Upload)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    runs = glob.glob(LOGS + "/wandb/offline-run-*")
    assert len(runs) == 1, runs
    env = dict(os.environ, HOME=os.getcwd(), WANDB_API_KEY="0" * 40,
               WANDB_BASE_URL=f"http://127.0.0.1:{server.server_address[1]}")
    done = subprocess.run([BIN + "/wandb", "sync", runs[0]], env=env, capture_output=True, text=True, timeout=120)
    good = "Finished syncing" in done.stderr + done.stdout and bool(glob.glob(runs[0] + "/*.synced"))
    print(f"{'ok' if good else 'NOT OK'}: wandb sync took the directory")
    rows = Upload.history
    steps = [row["_step"] for row in rows]
    good &= steps == list(range(len(rows)))
    for tag, points in want.items():
        got = [(row["train/global_step"], row[tag]) for row in rows if tag in row]
        good &= compare("wandb sync " + tag, got, points)
    lr = Upload.configs[0].get("optimizer", {}).get("value", {}).get("lr")
    print(f"{'ok' if Upload.exits == [0] else 'NOT OK'}: exit code {Upload.exits}, optimizer.lr {lr}")
    return good and Upload.exits == [0] and lr is not None


def main():
    disttrain = os.path.abspath(sys.argv[1])
    os.chdir(tempfile.mkdtemp(prefix="dt-sinks-"))
    text = random.Random(17)
    with open("train.txt", "w", encoding="ascii") as file:
        file.write("".join(text.choice("abcdefgh \n") for _ in range(20000)))
    with open("t.yaml", "w", encoding="ascii") as file:
        file.write(CONFIG % 600)
    for _ in range(3):
        train(disttrain, 60)
    want = expected()
    good = python_readers(want)  # of a run that was killed
    train(disttrain, 0)
    want = expected()
    good &= python_readers(want)
    good &= rust_server(want)
    good &= wandb_sync(want)
    print("all good" if good else f"see {os.getcwd()}")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
