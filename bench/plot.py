"""Draws what was measured: how fast copies are, over one thing at a time.

  pinring bench --json | python3 bench/plot.py - speed.svg
  python3 bench/plot.py [--over=size|movers|ring|load] bench/results/h200-16-processors.json speed.svg speed.png

Reads what `pinring bench --json` (sizes only) or `figures` wrote; the ending of an output says its format. Needs matplotlib.
"""
import argparse
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
SIZE = f"(\\d+)({'|'.join(UNITS)})"
# What follows "<way>_<direction>_<size>" in the name of a figure, and the axis.
AXES = {"size": ("", "size of the copy"), "movers": ("_(\\d+)_movers", "movers"),
        "ring": (f"_ring_{SIZE}", "size of the ring")}


def from_bench(result, over):
    """{(way, direction): {bytes: GB/s}}"""
    if over != "size":
        raise SystemExit(f"plot.py: what `pinring bench` measures is over sizes; over {over} needs what `figures` wrote")
    rates = {}
    for size in result["sizes"]:
        for path, times in size["paths"].items():
            for key, direction in (("host_to_device", "in"), ("device_to_host", "out")):
                if times[key] is not None:
                    curve = rates.setdefault((BENCH_WAYS.get(path, path), direction), {})
                    curve[size["bytes"]] = times[key]["gb_per_s"]
    return rates


def from_figures(result, over):
    """The same over what AXES names; {(way, direction): {None: GB/s}} is a line right across."""
    rates = {}
    for name, seconds in result["seconds"].items():
        match = re.fullmatch(f"({'|'.join(WAYS)})_(in|out)_{SIZE}{AXES[over][0]}", name)
        if match and seconds > 0:
            way, direction, number, unit, *along = match.groups()
            size = int(number) * UNITS[unit]
            if over == "size":
                at = size
            else:
                at = int(along[0]) * (UNITS[along[1]] if len(along) > 1 else 1)
                pinned = result["seconds"].get(f"pinned_{direction}_{number}{unit}")
                if pinned:
                    rates.setdefault(("pinned", direction), {})[None] = size / pinned / 1e9
            rates.setdefault((way, direction), {})[at] = size / seconds / 1e9
    return rates


def human(size):
    for unit, factor in reversed(UNITS.items()):
        if size >= factor:
            return f"{size / factor:g} {unit}"
    return f"{size} B"


def draw(rates, over, title):
    figure, panels = pyplot.subplots(1, len(DIRECTIONS), figsize=(11, 4.2), sharey=True)
    ticks = sorted({at for curve in rates.values() for at in curve if at is not None})
    for panel, (direction, heading) in zip(panels, DIRECTIONS.items()):
        for way, label in WAYS.items():
            curve = rates.get((way, direction), {})
            if None in curve:
                panel.axhline(curve[None], linestyle="--", label=label)
            elif curve:
                panel.plot(*zip(*sorted(curve.items())), marker="o", markersize=3, label=label)
        panel.set_title(heading)
        if over == "movers":
            panel.set_xticks(ticks, ticks)
        else:
            panel.set_xscale("log", base=2)
            panel.set_xticks(ticks, [human(at) for at in ticks], rotation=45, ha="right", fontsize=7)
        panel.set_xlabel(AXES[over][1])
        panel.minorticks_off()
        panel.set_ylim(bottom=0)
        panel.grid(alpha=0.3)
    panels[0].set_ylabel("GB/s")
    panels[-1].legend(fontsize=8)
    figure.suptitle(title)
    return figure


def draw_load(seconds, title):
    figure, panel = pyplot.subplots(figsize=(7, 2.4))
    labels = ["pinned", "staged"]
    bars = panel.barh(labels, [seconds[f"load_8GiB_{label}"] for label in labels], color=["C0", "C2"])
    panel.bar_label(bars, fmt="%.2f s", padding=3)
    panel.margins(x=0.15)
    panel.set_xlabel("seconds to allocate 8 GiB of host memory, fill it and copy it to the device")
    figure.suptitle(title)
    return figure


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--over", choices=[*AXES, "load"], default="size", help="what lies along the axis")
    parser.add_argument("source", help="the JSON; -: from standard input")
    parser.add_argument("outputs", nargs="+", help="where to draw: .svg, .png")
    arguments = parser.parse_args()
    source, over = arguments.source, arguments.over
    with sys.stdin if source == "-" else open(source, encoding="utf-8") as file:
        result = json.load(file)
    readers = {"pinring.bench": from_bench, "pinring.figures": from_figures}
    if result.get("schema") not in readers:
        raise SystemExit(f"plot.py: {source} has the schema {result.get('schema')!r}; known: {', '.join(readers)}")
    if result["simulated"]:
        raise SystemExit(f"plot.py: {source} is of a simulated device, which says nothing about speed")
    if over == "load":
        if "load_8GiB_staged" not in result.get("seconds", {}):
            raise SystemExit(f"plot.py: {source} has no load that was timed")
        figure = draw_load(result["seconds"], result["device"])
    else:
        rates = readers[result["schema"]](result, over)
        if not any(at is not None for curve in rates.values() for at in curve):
            raise SystemExit(f"plot.py: {source} has no copy that was timed over {over}")
        figure = draw(rates, over, f"Copies between host and device, {result['device']}")
    figure.tight_layout()
    for output in arguments.outputs:
        figure.savefig(output, dpi=150)


if __name__ == "__main__":
    main()
