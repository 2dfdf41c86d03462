#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""summary.py FILE - a table of results, one JSON object a line, as ratios.

All runs of a name are one sample. The ratio is that of the medians: how many
times as fast disttrain is as that peer.
"""
import json
import statistics
import sys


def main():
    samples = {}
    with open(sys.argv[1], encoding="utf-8") as f:
        for result in map(json.loads, f):
            sample = samples.setdefault(result["name"], {
                "runs": 0, "seconds": [], "peak_mb": 0,
                "tokens": result["tokens"]})
            sample["runs"] += 1
            sample["seconds"] += result["seconds"]
            sample["peak_mb"] = max(sample["peak_mb"], result["peak_mb"])
    ours = samples.get("disttrain")
    print("| peer | runs | steps | median s | quartiles s | best s | tokens/s "
          "| peak MiB | ratio |")
    print("|---|---|---|---|---|---|---|---|---|")
    for name, s in samples.items():
        low, mid, high = statistics.quantiles(s["seconds"], n=4)
        ratio = mid / statistics.median(ours["seconds"]) if ours else 0
        print(f"| {name} | {s['runs']} | {len(s['seconds'])} | {mid:.3f} "
              f"| {low:.3f} - {high:.3f} | {min(s['seconds']):.3f} "
              f"| {s['tokens'] / mid:.0f} | {s['peak_mb']} | {ratio:.2f} |")


if __name__ == "__main__":
    main()
