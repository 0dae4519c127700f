"""What a profiler is told (nvtx_recorder.cc is attached by the environment): ranges with their bytes, and the threads.

  nvtx_test.py PINRING
"""
import re
import subprocess
import sys

SIZE = 8 << 20
done = subprocess.run([sys.argv[1], "demo", f"--size={SIZE}"], capture_output=True, text=True, check=False)
assert done.returncode == 0, done.stdout + done.stderr
told = [line.removeprefix("nvtx: ") for line in done.stderr.splitlines() if line.startswith("nvtx: ")]
ranges = dict(re.fullmatch(r"(.*): ranges, (\d+) bytes", line).groups() for line in told if ": ranges, " in line)
for name in ("copy to device", "copy to host", "fill slot", "drain slot"):
    assert int(ranges.get(name, 0)) == SIZE, (name, told)
assert "a thread is called pinring-mover-0" in told, told
assert "every range has ended" in told, told
