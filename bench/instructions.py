#!/usr/bin/env python3
"""Counts instructions of pinring's own and compares them with kept figures.

  python3 bench/instructions.py build/release/bench/instructions

valgrind's callgrind counts them, so that no quiet machine is needed, nor a GPU.
A row that takes more than a twentieth more than its kept figure in
bench/results/instructions.json fails; one that takes as much less is shown, so
that the figure can be renewed: `--keep` writes all of them. What a compiler
makes of the code is its own affair: with another one than that of the kept
figures nothing is compared.
"""

import argparse
import json
import pathlib
import re
import subprocess
import sys
import tempfile

KEPT = pathlib.Path(__file__).parent / "results" / "instructions.json"
TOLERANCE = 0.05
TRIGGER = "desc: Trigger: Client Request: "


def count(program):
    """Returns the compiler's version and a dict from row to instructions."""
    with tempfile.TemporaryDirectory() as folder:
        run = subprocess.run(
            ["valgrind", "--tool=callgrind", "--collect-atstart=no",
             f"--callgrind-out-file={folder}/out", program],
            capture_output=True, text=True, timeout=600, check=False)
        if run.returncode != 0:
            sys.exit(f"{program} under valgrind ended with {run.returncode}:\n"
                     f"{run.stdout}{run.stderr}")
        compiler = re.search(r"^compiler (.*)$", run.stdout, re.M)
        if compiler is None:
            sys.exit(f"{program} measured nothing:\n{run.stdout}{run.stderr}")
        rows = {}
        for dump in pathlib.Path(folder).iterdir():
            text = dump.read_text(encoding="utf-8", errors="replace")
            if TRIGGER not in text:
                continue  # what is dumped at the end
            row, times = text.split(TRIGGER, 1)[1].split("\n", 1)[0].rsplit(" ", 1)
            total = re.search(r"^(?:summary|totals): (\d+)", text, re.M)
            figure = int(total.group(1)) / int(times)
            rows[row] = min(figure, rows.get(row, figure))
    if not rows:
        sys.exit(f"{program} counted nothing: it was built without "
                 "valgrind/callgrind.h (Debian: valgrind)")
    return compiler.group(1), rows


def compare(kept, rows):
    """Prints all rows; returns those that are worse, and those not in both."""
    worse = []
    print(f"{'instructions':>12} {'kept':>12}")
    for row, figure in rows.items():
        if row not in kept:
            print(f"{figure:12.1f} {'-':>12}  {row}: NOT KEPT")
            worse.append(row)
            continue
        change = figure / kept[row] - 1
        note = ""
        if change > TOLERANCE:
            note = f": {change:+.1%}, WORSE"
            worse.append(row)
        elif change < -TOLERANCE:
            note = f": {change:+.1%}, better; renew it with --keep"
        print(f"{figure:12.1f} {kept[row]:12.1f}  {row}{note}")
    for row in kept.keys() - rows.keys():
        print(f"{'-':>12} {kept[row]:12.1f}  {row}: NOT COUNTED")
        worse.append(row)
    return worse


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("program", help="the built bench/instructions")
    parser.add_argument("--keep", action="store_true",
                        help=f"write the figures to {KEPT.name}")
    arguments = parser.parse_args()
    compiler, rows = count(arguments.program)
    if arguments.keep:
        KEPT.write_text(json.dumps(
            {"compiler": compiler,
             "instructions": {row: round(rows[row], 1) for row in sorted(rows)}},
            indent=2) + "\n", encoding="utf-8")
        print(f"{len(rows)} figures kept in {KEPT}")
        return
    kept = json.loads(KEPT.read_text(encoding="utf-8"))
    if kept["compiler"] != compiler:
        print(f"SKIPPED: the kept figures are of compiler {kept['compiler']}, "
              f"this is {compiler}; nothing was compared")
        return
    worse = compare(kept["instructions"], dict(sorted(rows.items())))
    if worse:
        sys.exit("worse than kept, or not in both: " + ", ".join(worse))


if __name__ == "__main__":
    main()
