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


def plot(plotter, source, outputs, text=None, over="size"):
    return subprocess.run([sys.executable, plotter, f"--over={over}", source, *outputs], input=text, text=True, capture_output=True)


def bench(**changes):
    times = {"host_to_device": {"nanoseconds": 1000.0, "gb_per_s": 4.096}, "device_to_host": None}
    size = {"bytes": 4096, "rounds": 1, "wrong_bytes": 0, "paths": {"staged_sync": times, "pinned": times}}
    return json.dumps({"schema": "pinring.bench", "device": "D", "simulated": False, "sizes": [size], **changes})


def figures_with(**seconds):
    return json.dumps({"schema": "pinring.figures", "device": "D", "simulated": False, "seconds": seconds})


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
        os.remove(svg)
        for over, seconds, drawn in (
                ("movers", {"sync_in_1GiB_4_movers": 0.5, "sync_in_1GiB_12_movers": 0.25, "pinned_in_1GiB": 0.2}, "movers"),
                ("ring", {"sync_out_1GiB_ring_16MiB": 0.5, "sync_out_1GiB_ring_128MiB": 0.25}, "128 MiB"),
                ("load", {"load_8GiB_staged": 0.5, "load_8GiB_pinned": 4.0}, "4.00 s")):
            done = plot(plotter, "-", [svg], figures_with(**seconds), over)
            assert done.returncode == 0, done.stderr
            # Text is drawn as paths, each said in a comment.
            with open(svg, encoding="utf-8") as file:
                assert f"<!-- {drawn} -->" in file.read(), over
            os.remove(svg)
            done = plot(plotter, "-", [svg], figures_with(pinned_in_1GiB=0.2), over)
            assert done.returncode == 1 and "that was timed" in done.stderr, done.stderr
        done = plot(plotter, "-", [svg], bench(), "ring")
        assert done.returncode == 1 and "needs what `figures` wrote" in done.stderr, done.stderr
        for refused, reason in ((bench(simulated=True), "simulated device"), (bench(schema="s"), "known: pinring.bench"),
                                (bench(sizes=[]), "no copy that was timed")):
            done = plot(plotter, "-", [svg], refused)
            assert done.returncode == 1 and reason in done.stderr, done.stderr


main(*sys.argv[1:])
