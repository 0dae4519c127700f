# A driver-API program without a runtime, as Python makes them: ctypes alone.
#
#   ctypes_program.py [SIGNAL]   sends itself the signal, too
import ctypes as c
import os
import sys
import time

cuda = c.CDLL("libcuda.so.1")


def check(call, *arguments, expect=0):
    code = getattr(cuda, call)(*arguments)
    if code != expect:
        sys.exit(f"{call} answered {code}, not {expect}")


def signal():
    if len(sys.argv) > 1:
        os.kill(os.getpid(), int(sys.argv[1]))


BYTES = (3 << 20) + 5
signal()
check("cuInit", 0)
context = c.c_void_p()
check("cuDevicePrimaryCtxRetain", c.byref(context), 0)
check("cuCtxSetCurrent", context)
host, back, device = c.c_void_p(), c.c_void_p(), c.c_uint64()
check("cuMemHostAlloc", c.byref(host), c.c_size_t(BYTES), 0)
check("cuMemAllocHost_v2", c.byref(back), c.c_size_t(BYTES))
check("cuMemAlloc_v2", c.byref(device), c.c_size_t(BYTES))
pattern = bytes(i * 7 % 251 for i in range(BYTES))
c.memmove(host, pattern, BYTES)
check("cuMemcpyHtoDAsync_v2", device, host, c.c_size_t(BYTES), None)
check("cuMemcpyDtoHAsync_v2", back, device, c.c_size_t(BYTES), None)
check("cuStreamSynchronize", None)
signal()
time.sleep(0.5 if len(sys.argv) > 1 else 0)
print("bytes", c.string_at(back, BYTES) == pattern)
check("cuMemsetD8_v2", c.c_uint64(back.value), 0x5A, c.c_size_t(100))
check("cuMemsetD32_v2", c.c_uint64(back.value + 100 + 56), 0x01020304,
      c.c_size_t(8))
print("memset", c.string_at(back, 101)[98:] == b"\x5a\x5a" + pattern[100:101],
      c.string_at(back.value + 156, 8).hex())

kind, start, size = c.c_uint(), c.c_uint64(), c.c_size_t()
for offset in (0, 1, BYTES - 1):
    at = c.c_uint64(host.value + offset)
    check("cuPointerGetAttribute", c.byref(kind), 2, at)
    check("cuPointerGetAttribute", c.byref(start), 11, at)
    check("cuPointerGetAttribute", c.byref(size), 12, at)
    print("attributes", offset, kind.value, start.value == host.value,
          size.value == BYTES)
check("cuPointerGetAttribute", c.byref(kind), 2,
      c.c_uint64(host.value + (4 << 20)), expect=1)
flags = c.c_uint()
check("cuMemHostGetFlags", c.byref(flags), host)
check("cuMemHostRegister_v2", c.c_void_p(host.value + 4096),
      c.c_size_t(4096), 0, expect=1)
check("cuMemHostUnregister", host, expect=1)
check("cuMemFreeHost", c.c_void_p(host.value + 64), expect=1)
mapped = c.c_uint64()
check("cuMemHostGetDevicePointer_v2", c.byref(mapped), host, 0)
print("device pointer", mapped.value == host.value)
check("cuMemFreeHost", host)
check("cuMemFreeHost", host, expect=1)
check("cuMemFreeHost", back)
check("cuMemFree_v2", device)
