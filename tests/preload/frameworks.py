"""Python frameworks as they are, natively and under the preload library: the same results, and how long they took.

  frameworks.py PRELOAD_LIBRARY [--bytes=N] [SECTION...]

Sections: torch loader graph pageable idle cupy jax numba. One that cannot run here is said to be skipped; the status is 77
if none could. Each runs twice, in a process of its own; what it prints as "result" must be the same both times, to the bit. Times
and pinned bytes are printed side by side: a program's own clock, and the kernel's count of memory that the driver pinned.
"""
import argparse
import importlib.util
import json
import os
import subprocess
import sys
import time

NEEDS = {"torch": "torch", "loader": "torch", "graph": "torch", "pageable": "torch", "idle": "torch", "cupy": "cupy",
         "jax": "jax", "numba": "numba"}


def result(name, value):
    print("result", name, value, flush=True)


def measured(name, value):
    print("measured", name, repr(float(value)), flush=True)


def pinned_now():
    """Bytes of this process that the kernel counts as shared memory, where NVIDIA's driver has what it pins."""
    with open("/proc/self/status") as status:
        for line in status:
            if line.startswith("RssShmem:"):
                return int(line.split()[1]) * 1024
    return 0


class Timed:
    def __init__(self, name, size=0, wait=None):
        self.name, self.size, self.wait = name, size, wait

    def __enter__(self):
        self.begin = time.perf_counter()

    def __exit__(self, *_):
        if self.wait:
            self.wait()
        seconds = time.perf_counter() - self.begin
        measured(self.name + ("_GB/s" if self.size else "_s"), self.size / seconds / 1e9 if self.size else seconds)


def run_torch(size):
    """Pinned tensors: allocated, filled, copied both ways on a stream of their own."""
    import torch
    torch.cuda.init()
    on_device = torch.zeros(size // 8, dtype=torch.int64, device="cuda")
    back_device = torch.empty_like(on_device)
    torch.cuda.synchronize()
    before = pinned_now()
    with Timed("allocate"):
        pinned = torch.empty(size // 8, dtype=torch.int64, pin_memory=True)
    back = torch.empty(size // 8, dtype=torch.int64, pin_memory=True)
    torch.arange(size // 8, out=pinned)
    pinned.mul_(0x9E3779B97F4A7C15 - (1 << 64)).bitwise_xor_(pinned >> 29 if size <= 1 << 30 else 0x5DEECE66D)
    back.zero_()
    measured("pinned_bytes", pinned_now() - before)
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        on_device.copy_(pinned, non_blocking=True)  # the first makes the ring
        stream.synchronize()
        with Timed("to_device", size, stream.synchronize):
            on_device.copy_(pinned, non_blocking=True)
        back_device.copy_(on_device)
        result("sum", int(back_device.sum()))
        with Timed("to_host", size, stream.synchronize):
            back.copy_(back_device, non_blocking=True)
    result("equal", torch.equal(back, pinned))
    result("is_pinned", [pinned.is_pinned(), back.is_pinned(), torch.empty(9).is_pinned()])
    part = pinned[1000:2000].clone().pin_memory()
    result("part", [part.is_pinned(), int(part.cuda(non_blocking=True).sum())])
    measured("pinned_bytes_at_end", pinned_now() - before)


def run_loader(_):
    """A DataLoader with workers and pin_memory, and a training loop whose losses are compared bit for bit."""
    import torch
    from torch.utils.data import DataLoader, TensorDataset
    torch.manual_seed(1)
    torch.use_deterministic_algorithms(True)
    data = TensorDataset(torch.randn(16384, 3, 32, 32), torch.randint(0, 10, (16384,)))
    model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(3072, 512), torch.nn.ReLU(), torch.nn.Linear(512, 10)).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    losses = []
    with Timed("two_epochs", wait=torch.cuda.synchronize):
        for _ in range(2):
            for images, labels in DataLoader(data, batch_size=1024, shuffle=True, num_workers=3, pin_memory=True):
                assert images.is_pinned() and labels.is_pinned()
                loss = torch.nn.functional.cross_entropy(model(images.cuda(non_blocking=True)), labels.cuda(non_blocking=True))
                optimizer.zero_grad(set_to_none=True)
                loss.backward()
                optimizer.step()
                losses.append(loss.detach().to("cpu", non_blocking=False).item().hex())
    result("losses", losses)
    measured("pinned_bytes_at_end", pinned_now())


def run_graph(_):
    """Copies of pinned tensors captured in a CUDA graph and replayed with other bytes each time."""
    import torch
    pinned = torch.arange(3 << 20, dtype=torch.int32).pin_memory()
    back = torch.zeros(3 << 20, dtype=torch.int32).pin_memory()
    device = torch.zeros(3 << 20, dtype=torch.int32, device="cuda")
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        device.copy_(pinned, non_blocking=True)
        back.copy_(device * 3, non_blocking=True)
    stream.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        device.copy_(pinned, non_blocking=True)
        tripled = device * 3
        back.copy_(tripled, non_blocking=True)
    for turn in range(20):
        pinned.fill_(turn * 7 + 1)
        pinned[turn] = -turn
        graph.replay()
        torch.cuda.synchronize()
        result(f"turn_{turn}", [int(back.sum(dtype=torch.int64)), int(back[turn]), torch.equal(back, pinned * 3)])


def run_pageable(size):
    """A program that never pins: .to() and copy_ of ordinary tensors of up to 1 GiB."""
    import torch
    size = min(size, 1 << 30)
    host = torch.arange(size // 8).mul_(0x9E3779B97F4A7C15 - (1 << 64))
    back = torch.zeros_like(host)
    device = host.to("cuda")
    times = [[], []]
    for _ in range(5):
        begin = time.perf_counter()
        device.copy_(host)
        torch.cuda.synchronize()
        middle = time.perf_counter()
        back.copy_(device)
        times[0].append(middle - begin)
        times[1].append(time.perf_counter() - middle)
    measured("to_device_GB/s", size / sorted(times[0])[2] / 1e9)
    measured("to_host_GB/s", size / sorted(times[1])[2] / 1e9)
    result("equal", torch.equal(back, host))
    result("sum", int(device.sum()))
    result("is_pinned", host.is_pinned())


def run_idle(_):
    """A program that neither pins nor copies much."""
    import torch
    torch.manual_seed(2)
    left = torch.randn(1024, 1024, device="cuda")
    right = left.clone()
    for _ in range(200):
        right = torch.tanh(left @ right)
    torch.cuda.synchronize()
    times = []
    for _ in range(9):
        begin = time.perf_counter()
        for _ in range(2000):
            right = torch.tanh(left @ right)
        torch.cuda.synchronize()
        times.append(time.perf_counter() - begin)
    measured("kernels_s", min(times))
    begin = time.perf_counter()
    for _ in range(20000):
        right.add_(0)
    torch.cuda.synchronize()
    measured("launches_s", time.perf_counter() - begin)
    result("value", float(right.sum()).hex())


def run_cupy(size):
    """Pinned memory as CuPy takes it, with numpy arrays in it."""
    import cupy
    import numpy
    count = min(size, 1 << 30) // 8
    with Timed("allocate"):
        memory = cupy.cuda.alloc_pinned_memory(count * 8)
    host = numpy.frombuffer(memory, numpy.int64, count)
    host[:] = numpy.arange(count) * 7 % 1000003
    stream = cupy.cuda.Stream(non_blocking=True)
    device = cupy.empty(count, numpy.int64)
    device.set(host, stream=stream)
    stream.synchronize()
    with Timed("to_device", count * 8, stream.synchronize):
        device.set(host, stream=stream)
    with stream:
        result("sum", int((device * 3).sum()))
    back = numpy.frombuffer(cupy.cuda.alloc_pinned_memory(count * 8), numpy.int64, count)
    with Timed("to_host", count * 8, stream.synchronize):
        device.get(stream=stream, out=back)
    result("equal", bool((back == host).all()))


def run_jax(size):
    """jax.device_put and back of numpy arrays, which JAX copies through pinned memory of its own."""
    import jax
    import numpy
    count = min(size, 1 << 29) // 4
    host = (numpy.arange(count, dtype=numpy.int64) * 11 % 999983).astype(numpy.int32)
    device = jax.block_until_ready(jax.device_put(host))
    with Timed("to_device", count * 4):
        device = jax.block_until_ready(jax.device_put(host))
    doubled = jax.block_until_ready(jax.jit(lambda x: x * 2)(device))
    with Timed("to_host", count * 4):
        back = numpy.asarray(doubled)
    result("equal", bool((back == host * 2).all()))
    result("platform", device.devices().pop().platform)


def run_numba(size):
    """numba.cuda's pinned arrays, and arrays pinned where they are."""
    import numpy
    from numba import cuda
    count = min(size, 1 << 30) // 8
    stream = cuda.stream()
    with Timed("allocate"):
        host = cuda.pinned_array(count, numpy.int64)
    host[:] = numpy.arange(count) * 5 % 1000033
    device = cuda.to_device(host, stream=stream)
    stream.synchronize()
    with Timed("to_device", count * 8, stream.synchronize):
        device.copy_to_device(host, stream=stream)
    back = cuda.pinned_array(count, numpy.int64)
    with Timed("to_host", count * 8, stream.synchronize):
        device.copy_to_host(back, stream=stream)
    result("equal", bool((back == host).all()))
    ordinary = numpy.arange(1 << 20)
    with cuda.pinned(ordinary):
        other = cuda.to_device(ordinary, stream=stream)
        ordinary_back = other.copy_to_host(stream=stream)
        stream.synchronize()
    result("registered", bool((ordinary_back == ordinary).all()))


def child(section, size, library):
    environment = dict(os.environ, CUBLAS_WORKSPACE_CONFIG=":4096:8", XLA_PYTHON_CLIENT_PREALLOCATE="false",
                       PINRING_SHOW_USAGE="1")
    environment.pop("LD_PRELOAD", None)
    if library:
        environment["LD_PRELOAD"] = library
    return subprocess.run([sys.executable, __file__, f"--section={section}", f"--bytes={size}", "-"], env=environment,
                          capture_output=True, text=True, check=False, timeout=300)


def lines(done, kind):
    return dict(line.split(" ", 2)[1:] for line in done.stdout.splitlines() if line.startswith(kind + " "))


def compare(section, size, library):
    native, preloaded = child(section, size, None), child(section, size, library)
    for name, done in (("natively", native), ("preloaded", preloaded)):
        if done.returncode != 0:
            print(f"{section}: {name} it ended with {done.returncode}\n{done.stdout[-2000:]}{done.stderr[-4000:]}")
            return False
    expected, got = lines(native, "result"), lines(preloaded, "result")
    same = bool(expected) and expected == got
    print(f"{section}: {len(expected)} results {'the same' if same else 'DIFFER'}")
    if not same:
        print(json.dumps({"natively": expected, "preloaded": got}, indent=1))
    there = lines(preloaded, "measured")
    for name, value in lines(native, "measured").items():
        here, beside = float(value), float(there.get(name, "nan"))
        print(f"  {name:22} natively {here:<14.6g} preloaded {beside:<14.6g} ratio {beside / here if here else 0:.4g}")
    print("\n".join("  | " + line for line in preloaded.stderr.splitlines()))
    return same


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("library")
    parser.add_argument("sections", nargs="*")
    parser.add_argument("--bytes", type=int, default=256 << 20)
    parser.add_argument("--section")
    options = parser.parse_args()
    if options.section:
        globals()["run_" + options.section](options.bytes)
        return 0
    ran, failed = 0, []
    for section in options.sections or NEEDS:
        if importlib.util.find_spec(NEEDS[section]) is None:
            print(f"{section}: SKIPPED, this Python has no {NEEDS[section]}")
            continue
        ran += 1
        if not compare(section, options.bytes, os.path.abspath(options.library)):
            failed.append(section)
        sys.stdout.flush()
    if failed:
        print("failed:", *failed)
    return 1 if failed else 0 if ran else 77


sys.exit(main())
