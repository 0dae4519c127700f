#include "tests/fuzz/calls.h"

#include <algorithm>

#include "include/pinring/pinring.h"
#include "src/capi/error_codes.h"

namespace pinring::fuzz {
namespace {

CUdeviceptr Address(const void* pointer) {
  return reinterpret_cast<CUdeviceptr>(pointer);
}

cudaStream_t RuntimeStream(CUstream stream) {
  return reinterpret_cast<cudaStream_t>(stream);
}

// One end of a box. Some begin inside of what they are cut out of.
void SetEnd(const CopyEnd& end, size_t width, void* first,
            cudaPitchedPtr* pointer, cudaPos* position) {
  const size_t x =
      end.offset % 2 == 0 ? 0 : std::min(end.offset, end.pitch - width);
  *position = {x, 0, 0};
  *pointer = {static_cast<char*>(first) - x, end.pitch, end.pitch, end.rows};
}

cudaMemcpy3DParms MakeBox(const Copy& copy, void* dst, const void* src) {
  cudaMemcpy3DParms box = {};
  SetEnd(copy.dst, copy.width, dst, &box.dstPtr, &box.dstPos);
  SetEnd(copy.src, copy.width, const_cast<void*>(src), &box.srcPtr,
         &box.srcPos);
  box.extent = {copy.width, copy.height, copy.depth};
  box.kind = static_cast<cudaMemcpyKind>(copy.direction);
  return box;
}

cudaMemcpy3DPeerParms MakePeerBox(const Copy& copy, void* dst,
                                  const void* src) {
  const cudaMemcpy3DParms box = MakeBox(copy, dst, src);
  cudaMemcpy3DPeerParms peer = {};
  peer.srcPtr = box.srcPtr;
  peer.srcPos = box.srcPos;
  peer.dstPtr = box.dstPtr;
  peer.dstPos = box.dstPos;
  peer.extent = box.extent;
  return peer;
}

// The array's end of a copy of its rows, and the memory's.
const CopyEnd& ArrayEnd(const Copy& copy, bool to) {
  return to ? copy.dst : copy.src;
}
const CopyEnd& MemoryEnd(const Copy& copy, bool to) {
  return to ? copy.src : copy.dst;
}

// A number that is no direction must not be loaded as one.
cudaMemcpyKind Direction(const Copy& copy) {
  return static_cast<cudaMemcpyKind>(copy.direction);
}

}  // namespace

cudaError_t LibraryCalls::Alloc(void** pointer, size_t bytes, unsigned flags) {
  return flags == 0 ? pinringMallocHost(pointer, bytes)
                    : pinringHostAlloc(pointer, bytes, flags);
}
cudaError_t LibraryCalls::Free(void* pointer) {
  return pinringFreeHost(pointer);
}
cudaError_t LibraryCalls::Register(void* pointer, size_t bytes) {
  return pinringHostRegister(pointer, bytes, 0);
}
cudaError_t LibraryCalls::Unregister(void* pointer) {
  return pinringHostUnregister(pointer);
}
cudaError_t LibraryCalls::Memset(void* dst, int value, size_t bytes, bool wait,
                                 CUstream stream) {
  return wait ? pinringMemset(dst, value, bytes)
              : pinringMemsetAsync(dst, value, bytes, RuntimeStream(stream));
}
cudaError_t LibraryCalls::Promote(void* pointer) {
  return pinringPromote(pointer);
}
cudaError_t LibraryCalls::DevicePointer(void** device_pointer, void* pointer) {
  return pinringHostGetDevicePointer(device_pointer, pointer, 0);
}
cudaError_t LibraryCalls::Attributes(cudaPointerAttributes* attributes,
                                     const void* pointer) {
  return pinringPointerGetAttributes(attributes, pointer);
}
cudaError_t LibraryCalls::HostFlags(unsigned* flags, void* pointer) {
  return pinringHostGetFlags(flags, pointer);
}

cudaError_t LibraryCalls::CopyBytes(const Copy& copy, void* dst,
                                    const void* src, CUstream cu_stream) {
  const cudaStream_t stream = RuntimeStream(cu_stream);
  switch (copy.form) {
    case CopyForm::kFlat:
      return copy.wait ? pinringMemcpy(dst, src, copy.width, Direction(copy))
                       : pinringMemcpyAsync(dst, src, copy.width,
                                            Direction(copy), stream);
    case CopyForm::kRows:
      return copy.wait
                 ? pinringMemcpy2D(dst, copy.dst.pitch, src, copy.src.pitch,
                                   copy.width, copy.height, Direction(copy))
                 : pinringMemcpy2DAsync(dst, copy.dst.pitch, src,
                                        copy.src.pitch, copy.width, copy.height,
                                        Direction(copy), stream);
    case CopyForm::kBox: {
      const cudaMemcpy3DParms box = MakeBox(copy, dst, src);
      return copy.wait ? pinringMemcpy3D(&box)
                       : pinringMemcpy3DAsync(&box, stream);
    }
    case CopyForm::kPageable:
      return copy.wait
                 ? pinringCopy(dst, src, copy.width, Direction(copy), stream)
                 : pinringCopyAsync(dst, src, copy.width, Direction(copy),
                                    static_cast<pinringAccess>(copy.access),
                                    stream);
    case CopyForm::kPeer:
      return copy.wait
                 ? pinringMemcpyPeer(dst, 0, src, 0, copy.width)
                 : pinringMemcpyPeerAsync(dst, 0, src, 0, copy.width, stream);
    case CopyForm::kPeerBox: {
      const cudaMemcpy3DPeerParms box = MakePeerBox(copy, dst, src);
      return copy.wait ? pinringMemcpy3DPeer(&box)
                       : pinringMemcpy3DPeerAsync(&box, stream);
    }
    case CopyForm::kPageableBox: {
      const cudaMemcpy3DParms box = MakeBox(copy, dst, src);
      return pinringCopy3DAsync(&box, static_cast<pinringAccess>(copy.access),
                                stream);
    }
    case CopyForm::kOfArray:
      break;  // CopyArray
  }
  return cudaErrorUnknown;
}

cudaError_t LibraryCalls::CopyArray(const Copy& copy, CUarray cu_array, bool to,
                                    void* memory, CUstream cu_stream) {
  const cudaStream_t stream = RuntimeStream(cu_stream);
  auto* const array = reinterpret_cast<cudaArray_t>(cu_array);
  const auto& [object, x, pitch, y] = ArrayEnd(copy, to);
  const size_t row = MemoryEnd(copy, to).pitch;
  if (to) {
    return copy.wait
               ? pinringMemcpy2DToArray(array, x, y, memory, row, copy.width,
                                        copy.height, Direction(copy))
               : pinringMemcpy2DToArrayAsync(array, x, y, memory, row,
                                             copy.width, copy.height,
                                             Direction(copy), stream);
  }
  return copy.wait
             ? pinringMemcpy2DFromArray(memory, row, array, x, y, copy.width,
                                        copy.height, Direction(copy))
             : pinringMemcpy2DFromArrayAsync(memory, row, array, x, y,
                                             copy.width, copy.height,
                                             Direction(copy), stream);
}

cudaError_t NativeCalls::Alloc(void** pointer, size_t bytes, unsigned flags) {
  if (bytes == 0) return cudaSuccess;  // the runtime calls no driver
  return RuntimeCode(driver_.MemHostAlloc(pointer, bytes, flags));
}
cudaError_t NativeCalls::Free(void* pointer) {
  return RuntimeCode(driver_.MemFreeHost(pointer));
}
cudaError_t NativeCalls::Register(void* pointer, size_t bytes) {
  return RuntimeCode(driver_.MemHostRegister(pointer, bytes, 0));
}
cudaError_t NativeCalls::Unregister(void* pointer) {
  return RuntimeCode(driver_.MemHostUnregister(pointer));
}
cudaError_t NativeCalls::Memset(void* dst, int value, size_t bytes, bool wait,
                                CUstream stream) {
  if (bytes == 0) return cudaSuccess;
  const auto byte = static_cast<unsigned char>(value);
  return RuntimeCode(
      wait ? driver_.MemsetD8(Address(dst), byte, bytes)
           : driver_.MemsetD8Async(Address(dst), byte, bytes, stream));
}
cudaError_t NativeCalls::Promote(void*) { return cudaSuccess; }
cudaError_t NativeCalls::DevicePointer(void** device_pointer, void* pointer) {
  CUdeviceptr address = 0;
  const CUresult code = driver_.MemHostGetDevicePointer(&address, pointer, 0);
  *device_pointer = reinterpret_cast<void*>(address);
  return RuntimeCode(code);
}
cudaError_t NativeCalls::HostFlags(unsigned* flags, void* pointer) {
  return RuntimeCode(driver_.MemHostGetFlags(flags, pointer));
}

cudaError_t NativeCalls::Attributes(cudaPointerAttributes* attributes,
                                    const void* pointer) {
  unsigned type = 0;
  int device = 0;
  CUdeviceptr device_pointer = 0;
  void* host_pointer = nullptr;
  CUpointer_attribute names[] = {
      CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
      CU_POINTER_ATTRIBUTE_DEVICE_POINTER, CU_POINTER_ATTRIBUTE_HOST_POINTER};
  void* values[] = {&type, &device, &device_pointer, &host_pointer};
  const CUresult code =
      driver_.PointerGetAttributes(4, names, values, Address(pointer));
  if (code != CUDA_SUCCESS) return RuntimeCode(code);
  *attributes = {};
  if (type == 0) {  // as measured
    attributes->type = cudaMemoryTypeUnregistered;
    attributes->device = cudaInvalidDeviceId;
    attributes->hostPointer = const_cast<void*>(pointer);
    return cudaSuccess;
  }
  attributes->type =
      type == CU_MEMORYTYPE_HOST ? cudaMemoryTypeHost : cudaMemoryTypeDevice;
  attributes->device = device;
  attributes->devicePointer = reinterpret_cast<void*>(device_pointer);
  attributes->hostPointer = host_pointer;
  return cudaSuccess;
}

CUresult NativeCalls::CopyRows(const Copy& copy, void* dst, const void* src,
                               CUstream stream) {
  if (copy.form == CopyForm::kRows) {
    CUDA_MEMCPY2D rows = {};
    rows.srcMemoryType = rows.dstMemoryType = CU_MEMORYTYPE_UNIFIED;
    rows.srcDevice = Address(src);
    rows.srcPitch = copy.src.pitch;
    rows.dstDevice = Address(dst);
    rows.dstPitch = copy.dst.pitch;
    rows.WidthInBytes = copy.width;
    rows.Height = copy.height;
    return copy.wait ? driver_.Memcpy2DUnaligned(&rows)
                     : driver_.Memcpy2DAsync(&rows, stream);
  }
  const cudaMemcpy3DParms box = MakeBox(copy, dst, src);
  CUDA_MEMCPY3D same = {};
  same.srcMemoryType = same.dstMemoryType = CU_MEMORYTYPE_UNIFIED;
  same.srcDevice = Address(box.srcPtr.ptr);
  same.srcPitch = box.srcPtr.pitch;
  same.srcHeight = box.srcPtr.ysize;
  same.srcXInBytes = box.srcPos.x;
  same.dstDevice = Address(box.dstPtr.ptr);
  same.dstPitch = box.dstPtr.pitch;
  same.dstHeight = box.dstPtr.ysize;
  same.dstXInBytes = box.dstPos.x;
  same.WidthInBytes = copy.width;
  same.Height = copy.height;
  same.Depth = copy.depth;
  if (copy.form == CopyForm::kPeerBox) {
    CUDA_MEMCPY3D_PEER peer = {};
    peer.srcMemoryType = peer.dstMemoryType = CU_MEMORYTYPE_UNIFIED;
    peer.srcContext = peer.dstContext = Context();
    peer.srcDevice = same.srcDevice;
    peer.srcPitch = same.srcPitch;
    peer.srcHeight = same.srcHeight;
    peer.srcXInBytes = same.srcXInBytes;
    peer.dstDevice = same.dstDevice;
    peer.dstPitch = same.dstPitch;
    peer.dstHeight = same.dstHeight;
    peer.dstXInBytes = same.dstXInBytes;
    peer.WidthInBytes = same.WidthInBytes;
    peer.Height = same.Height;
    peer.Depth = same.Depth;
    return copy.wait ? driver_.Memcpy3DPeer(&peer)
                     : driver_.Memcpy3DPeerAsync(&peer, stream);
  }
  return copy.wait ? driver_.Memcpy3D(&same)
                   : driver_.Memcpy3DAsync(&same, stream);
}

CUcontext NativeCalls::Context() const {
  CUcontext context = nullptr;
  (void)driver_.CtxGetCurrent(&context);
  return context;
}

cudaError_t NativeCalls::CopyArray(const Copy& copy, CUarray array, bool to,
                                   void* memory, CUstream stream) {
  if (copy.direction > cudaMemcpyDefault) {
    return cudaErrorInvalidMemcpyDirection;
  }
  CUDA_MEMCPY2D rows = {};
  const CopyEnd& end = ArrayEnd(copy, to);
  if (to) {
    rows.srcMemoryType = CU_MEMORYTYPE_UNIFIED;
    rows.srcDevice = Address(memory);
    rows.srcPitch = copy.src.pitch;
    rows.dstMemoryType = CU_MEMORYTYPE_ARRAY;
    rows.dstArray = array;
    rows.dstXInBytes = end.offset;
    rows.dstY = end.rows;
  } else {
    rows.dstMemoryType = CU_MEMORYTYPE_UNIFIED;
    rows.dstDevice = Address(memory);
    rows.dstPitch = copy.dst.pitch;
    rows.srcMemoryType = CU_MEMORYTYPE_ARRAY;
    rows.srcArray = array;
    rows.srcXInBytes = end.offset;
    rows.srcY = end.rows;
  }
  rows.WidthInBytes = copy.width;
  rows.Height = copy.height;
  return RuntimeCode(copy.wait ? driver_.Memcpy2DUnaligned(&rows)
                               : driver_.Memcpy2DAsync(&rows, stream));
}

cudaError_t NativeCalls::CopyBytes(const Copy& copy, void* dst, const void* src,
                                   CUstream stream) {
  if (!IsPeer(copy.form) && copy.direction > cudaMemcpyDefault &&
      copy.width > 0) {
    return cudaErrorInvalidMemcpyDirection;
  }
  if (copy.form == CopyForm::kRows || IsBox(copy.form)) {
    CUresult code = CopyRows(copy, dst, src, stream);
    if (code == CUDA_SUCCESS && copy.form == CopyForm::kPageableBox &&
        copy.access == pinringAccessDuringCall) {
      code = driver_.StreamSynchronize(stream);
    }
    return RuntimeCode(code);
  }
  if (copy.form == CopyForm::kPeer) {
    CUcontext const context = Context();
    return RuntimeCode(
        copy.wait ? driver_.MemcpyPeer(Address(dst), context, Address(src),
                                       context, copy.width)
                  : driver_.MemcpyPeerAsync(Address(dst), context, Address(src),
                                            context, copy.width, stream));
  }
  if (copy.form == CopyForm::kFlat && copy.wait) {
    return RuntimeCode(driver_.Memcpy(Address(dst), Address(src), copy.width));
  }
  CUresult code =
      driver_.MemcpyAsync(Address(dst), Address(src), copy.width, stream);
  const bool over = copy.form == CopyForm::kPageable && copy.width > 0 &&
                    (copy.wait || copy.access == pinringAccessDuringCall);
  if (code == CUDA_SUCCESS && over) code = driver_.StreamSynchronize(stream);
  return RuntimeCode(code);
}

}  // namespace pinring::fuzz
