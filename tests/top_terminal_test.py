"""`pinring top` in a pseudo-terminal: what it shows, its keys, another size of the window, and how it leaves.

  top_terminal_test.py PINRING TOP_PROGRAM
"""
import fcntl
import json
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
import time

PINRING, PROGRAM = sys.argv[1:3]


def fail(text):
    raise SystemExit(text)


def size(fd, rows, columns):
    fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))


class Screen:
    def __init__(self, master):
        self.master = master
        self.text = ""

    def until(self, what, seconds=10):
        """Reads until a whole frame since now fits `what`, and returns that frame."""
        self.text = ""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if select.select([self.master], [], [], 0.1)[0]:
                self.text += os.read(self.master, 65536).decode()
            for frame in self.text.split("\x1b[H\x1b[2J")[1:]:
                if what(frame):
                    return frame
        fail(f"not seen in {seconds} s; the end of what was: {self.text[-3000:]!r}")


def lines(frame):
    return frame.split("\r\n")


program = subprocess.Popen([PROGRAM], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
if program.stdout.readline() != "ready\n":
    fail("the program does not run")
try:
    master, slave = pty.openpty()
    size(master, 24, 120)
    before = termios.tcgetattr(slave)
    environment = {**os.environ, "TERM": "xterm"}
    top = subprocess.Popen([PINRING, "top", "--interval", "100"], stdin=slave, stdout=slave, stderr=slave,
                           env=environment)
    screen = Screen(master)
    mine = re.compile(rf"^{program.pid} ", re.M)
    frame = screen.until(lambda text: mine.search(text) and "weights" in text and re.search(r"weights.*[KMG]iB/s", text))
    if "sort:" not in frame or "PROCESS, CATEGORY" not in frame:
        fail(f"no header: {frame!r}")
    if termios.tcgetattr(slave)[3] & (termios.ICANON | termios.ECHO):
        fail("keys are not taken one by one")

    os.write(master, b"p")
    screen.until(lambda text: "host_to_device, staged_sync:" in text)
    os.write(master, b"p")
    screen.until(lambda text: mine.search(text) and "staged_sync" not in text)
    for key in b"knc":
        os.write(master, bytes([key]))
        screen.until(lambda text: mine.search(text))

    size(master, 4, 40)
    screen.until(lambda text: text and len(lines(text)) <= 4 and max(map(len, lines(text))) == 40)
    size(master, 30, 132)
    screen.until(lambda text: any(len(line) > 80 for line in lines(text)))

    os.write(master, b"q")
    if top.wait(10) != 0:
        fail(f"q ends it with {top.returncode}")
    if termios.tcgetattr(slave) != before:
        fail("the terminal is not as it was")
    left = b""
    while select.select([master], [], [], 0.2)[0]:
        left += os.read(master, 65536)
    if b"\x1b[?25h\x1b[?1049l" not in left:
        fail(f"the screen is not given back: {left!r}")

    # Ctrl-C leaves the same way.
    top = subprocess.Popen([PINRING, "top"], stdin=slave, stdout=slave, stderr=slave, env=environment)
    screen.until(lambda text: mine.search(text))
    os.write(master, b"\x03")
    if top.wait(10) != 0 or termios.tcgetattr(slave) != before:
        fail("Ctrl-C does not leave as q does")

    once = json.loads(subprocess.run([PINRING, "top", "--once", "--json", "--interval", "300"], check=True,
                                     capture_output=True, text=True).stdout)
    process = next(each for each in once["processes"] if each["pid"] == program.pid)
    weights = next(each for each in process["categories"] if each["name"] == "weights")
    if weights["current_bytes"] != 1 << 20 or not any(copy["bytes_per_second"] for copy in weights["copies"]):
        fail(f"wrong figures: {weights}")
    if process["age_ns"] > 1_000_000_000:
        fail(f"old figures: {process['age_ns']} ns")

    program.kill()
    program.wait()
    once = json.loads(subprocess.run([PINRING, "top", "--once", "--json"], check=True, capture_output=True,
                                     text=True).stdout)
    if any(each["pid"] == program.pid for each in once["processes"]):
        fail("a process that was killed is still there")

    # Without a terminal it says what to do.
    alone = subprocess.run([PINRING, "top"], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if alone.returncode != 1 or "--once" not in alone.stderr:
        fail(f"without a terminal: {alone}")
finally:
    program.kill()
print("as it should be")
