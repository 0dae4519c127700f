"""Draws how fast copies are by their size, from what was measured.

  pinring bench --json | python3 bench/plot.py - speed.svg
  python3 bench/plot.py bench/results/h200-16-processors.json speed.svg speed.png

Reads what `pinring bench --json` or `figures` wrote; the ending of an output says its format. Needs matplotlib.
"""
import json
import re
import sys

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot

WAYS = {"pinned": "pinned", "pageable": "pageable, the driver's way", "sync": "staged, synchronous",
        "deferred": "staged, asynchronous"}
BENCH_WAYS = {"staged_sync": "sync", "staged_async": "deferred"}
DIRECTIONS = {"in": "Host to device", "out": "Device to host"}
UNITS = {"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}


def from_bench(result):
    """{(way, direction): {bytes: GB/s}}"""
    rates = {}
    for size in result["sizes"]:
        for path, times in size["paths"].items():
            for key, direction in (("host_to_device", "in"), ("device_to_host", "out")):
                if times[key] is not None:
                    curve = rates.setdefault((BENCH_WAYS.get(path, path), direction), {})
                    curve[size["bytes"]] = times[key]["gb_per_s"]
    return rates


def from_figures(result):
    rates = {}
    for name, seconds in result["seconds"].items():
        match = re.fullmatch(f"({'|'.join(WAYS)})_(in|out)_(\\d+)({'|'.join(UNITS)})", name)
        if match and seconds > 0:
            size = int(match[3]) * UNITS[match[4]]
            rates.setdefault((match[1], match[2]), {})[size] = size / seconds / 1e9
    return rates


def human(size):
    for unit, factor in reversed(UNITS.items()):
        if size >= factor:
            return f"{size / factor:g} {unit}"
    return f"{size} B"


def draw(rates, title, outputs):
    figure, panels = pyplot.subplots(1, len(DIRECTIONS), figsize=(11, 4.2), sharey=True)
    sizes = sorted({size for curve in rates.values() for size in curve})
    for panel, (direction, heading) in zip(panels, DIRECTIONS.items()):
        for way, label in WAYS.items():
            curve = sorted(rates.get((way, direction), {}).items())
            if curve:
                panel.plot(*zip(*curve), marker="o", markersize=3, label=label)
        panel.set_title(heading)
        panel.set_xscale("log", base=2)
        panel.set_xticks(sizes, [human(size) for size in sizes], rotation=45, ha="right", fontsize=7)
        panel.minorticks_off()
        panel.set_ylim(bottom=0)
        panel.grid(alpha=0.3)
    panels[0].set_ylabel("GB/s")
    panels[-1].legend(fontsize=8)
    figure.suptitle(title)
    figure.tight_layout()
    for output in outputs:
        figure.savefig(output, dpi=150)


def main(arguments):
    if len(arguments) < 2:
        raise SystemExit(__doc__)
    source, *outputs = arguments
    with sys.stdin if source == "-" else open(source, encoding="utf-8") as file:
        result = json.load(file)
    readers = {"pinring.bench": from_bench, "pinring.figures": from_figures}
    if result.get("schema") not in readers:
        raise SystemExit(f"plot.py: {source} has the schema {result.get('schema')!r}; known: {', '.join(readers)}")
    if result["simulated"]:
        raise SystemExit(f"plot.py: {source} is of a simulated device, which says nothing about speed")
    rates = readers[result["schema"]](result)
    if not rates:
        raise SystemExit(f"plot.py: {source} has no copy that was timed")
    draw(rates, f"Copies between host and device, {result['device']}", outputs)


if __name__ == "__main__":
    main(sys.argv[1:])
