"""The plots of measured copies, drawn from both forms of results; needs matplotlib (77: it is not there).

  bench_plot_test.py PLOT FIGURES_JSON
"""
import json
import os
import subprocess
import sys
import tempfile

try:
    import matplotlib  # noqa: F401
except ImportError:
    print("SKIPPED: python3 has no matplotlib, so nothing is drawn")
    sys.exit(77)


def plot(plotter, source, outputs, text=None):
    return subprocess.run([sys.executable, plotter, source, *outputs], input=text, text=True, capture_output=True)


def bench(**changes):
    times = {"host_to_device": {"nanoseconds": 1000.0, "gb_per_s": 4.096}, "device_to_host": None}
    size = {"bytes": 4096, "rounds": 1, "wrong_bytes": 0, "paths": {"staged_sync": times, "pinned": times}}
    return json.dumps({"schema": "pinring.bench", "device": "D", "simulated": False, "sizes": [size], **changes})


def main(plotter, figures):
    with tempfile.TemporaryDirectory() as folder:
        svg, png = os.path.join(folder, "s.svg"), os.path.join(folder, "s.png")
        done = plot(plotter, figures, [svg, png])
        assert done.returncode == 0, done.stderr
        with open(png, "rb") as file:
            assert file.read(8) == b"\x89PNG\r\n\x1a\n"
        os.remove(svg)
        done = plot(plotter, "-", [svg], bench())
        assert done.returncode == 0, done.stderr
        with open(svg, encoding="utf-8") as file:
            assert "<svg" in file.read()
        for refused, reason in ((bench(simulated=True), "simulated device"), (bench(schema="s"), "known: pinring.bench"),
                                (bench(sizes=[]), "no copy that was timed")):
            done = plot(plotter, "-", [svg], refused)
            assert done.returncode == 1 and reason in done.stderr, done.stderr


main(*sys.argv[1:])
