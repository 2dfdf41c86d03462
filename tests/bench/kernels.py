#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""kernels.py FILE - the kernels of one training step, summed by name.

FILE is what `ncu --csv --metrics gpu__time_duration.sum` or `nsys stats
--report cuda_gpu_trace --format csv` wrote of a run of disttrain. The step is
the last one that began and ended there: from one launch of the kernel that
begins a step to the next. Prints the table in Markdown, and what is behind it
as one line of CSV for each name with --csv.
"""
import argparse
import csv
import re
import sys

BEGIN = re.compile(r"\bbegin_kernel\b")
NAMES = ("Kernel Name", "Name")
TIMES = ("Metric Value", "Duration (ns)")
MICROSECONDS = {"": 1e-3, "ns": 1e-3, "nsecond": 1e-3, "us": 1.0,
                "usecond": 1.0, "ms": 1e3, "msecond": 1e3}


def column(header, names):
    """The index of the column that has one of the names, -1: none has."""
    return next((header.index(x) for x in names if x in header), -1)


def launches(path):
    """(name, microseconds) of each launch, in the order of the file."""
    found, header = [], None
    with open(path, encoding="utf-8", errors="replace", newline="") as f:
        for row in csv.reader(f):
            if column(row, NAMES) >= 0 and column(row, TIMES) >= 0:
                header = row
                name, time = column(row, NAMES), column(row, TIMES)
                unit = column(row, ("Metric Unit",))
            elif header and len(row) == len(header):
                scale = MICROSECONDS[row[unit] if unit >= 0 else ""]
                found.append((row[name],
                              float(row[time].replace(",", "")) * scale))
    return found


def last_step(found):
    """The launches of the last whole step."""
    begins = [i for i, (name, _) in enumerate(found) if BEGIN.search(name)]
    if len(begins) < 2:
        sys.exit(f"kernels.py: {len(found)} launches, and begin_kernel is "
                 f"{len(begins)} times among them: expected two steps or more")
    return found[begins[-2]:begins[-1]]


def short(name):
    """Without arguments, return type and most of the template's."""
    name = re.sub(r"^void ", "", name)
    name = re.sub(r"\((?!anonymous).*", "", name)
    name = name.replace("(anonymous namespace)::", "")
    return name if len(name) <= 60 else name[:57] + "..."


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("file")
    p.add_argument("--csv", metavar="FILE", help="write all rows there")
    args = p.parse_args()
    sums = {}
    for name, us in last_step(launches(args.file)):
        count, total = sums.get(short(name), (0, 0.0))
        sums[short(name)] = (count + 1, total + us)
    rows = sorted(sums.items(), key=lambda x: -x[1][1])
    whole = sum(total for _, (_, total) in rows)
    if args.csv:
        with open(args.csv, "w", encoding="utf-8", newline="") as f:
            csv.writer(f).writerows(
                [name, count, f"{us:.1f}"] for name, (count, us) in rows)
    print("| kernel | launches | us | share |\n|---|--:|--:|--:|")
    for name, (count, us) in rows[:40]:
        print(f"| {name} | {count} | {us:.1f} | {us / whole:.1%} |")
    count = sum(count for _, (count, _) in rows)
    print(f"| all of the step | {count} | {whole:.1f} | |")


if __name__ == "__main__":
    main()
