#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""trial_page.py - is the page of a run accessible, and quiet?

    python3 -m venv V && V/bin/pip install axe-core-python
    V/bin/python tests/parity/trial_page.py BUILD/disttrain RUN [RUN...]

Writes the page of each run, and of all of them compared, and opens it in headless Chromium, wide and narrow, light and
dark. Fails if axe-core finds a violation, if the page says anything on the console, or if it asks for any address. Not
part of `make check`: it needs Chromium and axe-core.
"""

import html
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

import axe_core_python

AXE = (pathlib.Path(axe_core_python.__file__).parent / "axe.min.js").read_text().replace("</script", "<\\/script")
ASK = """axe.run(document, {resultTypes: ["violations"]}).then(r => {
    const found = r.violations.map(v => [v.id, v.impact, v.nodes.map(n => n.html.slice(0, 200))]);
    document.body.textContent = "AXE" + JSON.stringify({found: found, passes: r.passes.length}) + "AXE";
})"""
VIEWS = [("wide", ["--window-size=1200,900"]), ("narrow", ["--window-size=500,900"]),
         ("dark", ["--blink-settings=preferredColorScheme=0", "--window-size=1200,900"])]


def open_page(path, options):
    """The document after its scripts, and what Chromium has logged."""
    command = ["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr", "--dump-dom",
               "--virtual-time-budget=60000", *options, "file://" + path]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    return done.stdout, [line for line in done.stderr.splitlines() if "CONSOLE" in line]


def check_page(path, name):
    text = pathlib.Path(path).read_text()
    addresses = re.findall(r'(?:src|href)="?[^"#\s>]+|url\([^)]*\)|@import', text)
    _, said = open_page(path, [])
    bad = [f"{name}: asks for {address}" for address in addresses] + [f"{name}: {line}" for line in said]
    # the page allows no script: the copy for axe has to
    text = re.sub(r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", text)
    copy = path + ".axe.html"
    pathlib.Path(copy).write_text(text.replace("</body>", f"<script>{AXE}</script><script>{ASK}</script></body>"))
    for view, options in VIEWS:
        document, _ = open_page(copy, options)
        answer = re.search(r"AXE(\{.*\})AXE", html.unescape(document), re.S)
        if not answer:
            bad.append(f"{name}, {view}: no answer of axe")
            continue
        result = json.loads(answer[1])
        print(f"{name}, {view}: {result['passes']} rules pass, {len(result['found'])} do not")
        bad += [f"{name}, {view}: {found}" for found in result["found"]]
    return bad


def main():
    program, runs = sys.argv[1], sys.argv[2:]
    bad = []
    with tempfile.TemporaryDirectory() as here:
        for pages in [[run] for run in runs] + ([runs] if len(runs) > 1 else []):
            path = os.path.join(here, "page.html")
            subprocess.run([program, "report", "-o", path, *pages], check=True, stdout=subprocess.DEVNULL)
            bad += check_page(path, pages[0] if len(pages) == 1 else "comparison")
    print("\n".join(bad))
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
