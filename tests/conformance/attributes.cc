// Rules 15 to 18: what a block looks like.

#include <cstdlib>
#include <cstring>
#include <memory>

#include "tests/conformance/scenario.h"

namespace conformance {
namespace {

void Query(Run& run, const char* name, const unsigned char* pointer) {
  cudaPointerAttributes attributes;
  std::memset(&attributes, 0x5a, sizeof attributes);
  if (run.Code(name, cudaPointerGetAttributes(&attributes, pointer)) !=
      cudaSuccess) {
    run.Code("last", cudaGetLastError());
    return;
  }
  run.Note("type", attributes.type);
  run.Note("device", attributes.device);
  // 1 where it is the queried address, 0 where there is none.
  const auto address = [&](const char* which, const void* told) {
    run.Note(which, told == nullptr ? 0 : told == pointer ? 1 : 2);
  };
  address("host pointer", attributes.hostPointer);
  if (attributes.type != cudaMemoryTypeUnregistered) {
    address("device pointer", attributes.devicePointer);
  }
  unsigned flags = 0;
  if (run.Code("flags",
               cudaHostGetFlags(&flags, const_cast<unsigned char*>(pointer))) ==
      cudaSuccess) {
    run.Note("told", flags);
  } else {
    run.Code("last", cudaGetLastError());
  }
}

void Everywhere(Run& run) {
  const size_t bytes = run.Size(5 << 20) + 1;
  const unsigned flags = run.Pick<unsigned>(
      {cudaHostAllocDefault, cudaHostAllocDefault, cudaHostAllocPortable,
       cudaHostAllocMapped, cudaHostAllocWriteCombined,
       cudaHostAllocPortable | cudaHostAllocMapped});
  Pinned block(bytes, flags);
  Query(run, "first byte", block.get());
  Query(run, "second byte", block.get() + (bytes > 1 ? 1 : 0));
  Query(run, "last byte", block.get() + bytes - 1);
  Query(run, "somewhere", block.get() + run.Between(0, bytes - 1));
  unsigned char* const freed = block.Release();
  run.Code("free", cudaFreeHost(freed));
  if (bytes > (1 << 20)) Query(run, "freed", freed);
  std::vector<unsigned char> plain(bytes);
  Query(run, "plain", plain.data());
  Query(run, "null", nullptr);
  Device device(bytes);
  Query(run, "device", device.get());
  run.Code("no attributes", cudaPointerGetAttributes(nullptr, plain.data()));
  run.Code("no flags", cudaHostGetFlags(nullptr, plain.data()));
  run.Code("last", cudaGetLastError());
}

// Of whole pages, where nothing else lies behind it.
void OnePastTheEnd(Run& run) {
  const size_t bytes = run.Between(20, 2000) * 4096;
  Pinned block(bytes);
  cudaPointerAttributes attributes = {};
  run.Code("query", cudaPointerGetAttributes(&attributes, block.get() + bytes));
  run.Note("type", attributes.type);
  run.Code("before", cudaPointerGetAttributes(&attributes, block.get() - 1));
  run.Note("type", attributes.type);
}

// Rule 16: a device pointer may be asked for at any time, and is then memory
// that the device and the host share.
void DevicePointer(Run& run) {
  const size_t bytes = run.Size(3 << 20) + 1;
  Pinned block(bytes), back(bytes);
  Device device(bytes);
  Stream stream;
  run.Fill(block.get(), bytes);
  if (run.OneIn(2)) {
    // It has been through the ring before.
    run.Code("up", cudaMemcpyAsync(device.get(), block.get(), bytes,
                                   cudaMemcpyHostToDevice, stream));
  }
  const size_t at = run.Between(0, bytes - 1);
  unsigned char* shared = nullptr;
  run.Code("device pointer",
           cudaHostGetDevicePointer(reinterpret_cast<void**>(&shared),
                                    block.get() + at, 0));
  run.Note("same address", shared == block.get() + at ? 1 : 0);
  run.Code("across", cudaMemcpyAsync(device.get() + at, shared, bytes - at,
                                     cudaMemcpyDeviceToDevice, stream));
  run.Code("down", cudaMemcpyAsync(back.get() + at, device.get() + at,
                                   bytes - at, cudaMemcpyDeviceToHost, stream));
  run.Code("sync", cudaStreamSynchronize(stream));
  run.Right("bytes",
            std::memcmp(back.get() + at, block.get() + at, bytes - at) == 0);
  Query(run, "attributes", block.get());
  run.Code("flags", cudaHostGetDevicePointer(reinterpret_cast<void**>(&shared),
                                             block.get(), 1));
  run.Code("no answer", cudaHostGetDevicePointer(nullptr, block.get(), 0));
  int local = 0;
  run.Code("the stack", cudaHostGetDevicePointer(
                            reinterpret_cast<void**>(&shared), &local, 0));
  run.Code("last", cudaGetLastError());
  run.Code("again", cudaHostGetDevicePointer(reinterpret_cast<void**>(&shared),
                                             block.get(), 0));
}

// The device pointer is asked for while a copy of the block is held.
void DevicePointerWhileHeld(Run& run) {
  const size_t bytes = run.Between(70'000, 2 << 20);
  Pinned block(bytes);
  Device device(bytes);
  Stream stream;
  run.Fill(block.get(), bytes);
  Gate gate;
  gate.Hold(stream);
  run.Code("up", cudaMemcpyAsync(device.get(), block.get(), bytes,
                                 cudaMemcpyHostToDevice, stream));
  void* shared = nullptr;
  run.Code("device pointer", cudaHostGetDevicePointer(&shared, block.get(), 0));
  run.Right("returned before", !gate.open());
  run.Code("up again", cudaMemcpyAsync(device.get(), block.get(), bytes / 2,
                                       cudaMemcpyHostToDevice, stream));
  run.Fill(block.get(), bytes);
  gate.Open();
  run.Code("sync", cudaStreamSynchronize(stream));
  run.Right("bytes", DigestOf(Contents(device.get(), bytes).data(), bytes) ==
                         DigestOf(block.get(), bytes));
}

// Mapped and write-combined memory, copied as any other.
void MappedMemory(Run& run) {
  const size_t bytes = run.Size(2 << 20) + 1;
  Pinned block(bytes, run.Pick<unsigned>(
                          {cudaHostAllocMapped, cudaHostAllocWriteCombined,
                           cudaHostAllocMapped | cudaHostAllocPortable}));
  Pinned back(bytes);
  Device device(bytes);
  Stream stream;
  run.Fill(block.get(), bytes);
  unsigned char* shared = nullptr;
  run.Code("device pointer",
           cudaHostGetDevicePointer(reinterpret_cast<void**>(&shared),
                                    block.get(), 0));
  run.Code("up", cudaMemcpyAsync(device.get(), shared, bytes, cudaMemcpyDefault,
                                 stream));
  run.Code("down", cudaMemcpyAsync(back.get(), device.get(), bytes,
                                   cudaMemcpyDeviceToHost, stream));
  run.Code("sync", cudaStreamSynchronize(stream));
  run.Right("bytes", std::memcmp(back.get(), block.get(), bytes) == 0);
}

// Rule 17. Registered memory and blocks, in any overlap.
void Registering(Run& run) {
  const size_t bytes = run.Pick<size_t>({70'000, 1 << 20, 4 << 20});
  Pinned block(bytes);
  const auto registers = [&](const char* name, void* pointer, size_t length) {
    if (run.Code(name,
                 cudaHostRegister(pointer, length, cudaHostRegisterDefault)) ==
        cudaSuccess) {
      run.Code("unregister", cudaHostUnregister(pointer));
    } else {
      run.Code("last", cudaGetLastError());
    }
  };
  registers("all of a block", block.get(), bytes);
  registers("within a block", block.get() + 4096, 4096);
  registers("its last byte", block.get() + bytes - 1, 1);
  registers("nothing", block.get(), 0);
  run.Code("unregister a block", cudaHostUnregister(block.get()));
  run.Code("unregister within", cudaHostUnregister(block.get() + 4096));
  run.Code("unregister null", cudaHostUnregister(nullptr));
  run.Code("last", cudaGetLastError());
  std::vector<unsigned char> plain(bytes), other(100'000);
  run.Code("unregister plain", cudaHostUnregister(plain.data()));
  run.Code("last", cudaGetLastError());
  run.Code("register plain",
           cudaHostRegister(plain.data(), bytes, cudaHostRegisterMapped));
  registers("twice", plain.data(), bytes);
  registers("within it", plain.data() + bytes / 2, 100);
  registers("other memory", other.data(), other.size());
  Query(run, "registered", plain.data() + 1);
  run.Code("free what is registered", cudaFreeHost(plain.data()));
  run.Code("last", cudaGetLastError());
  Device device(bytes);
  run.Fill(plain.data(), bytes);
  run.Code("to a block",
           cudaMemcpy(block.get(), plain.data(), bytes, cudaMemcpyDefault));
  run.Code("up", cudaMemcpy(device.get(), block.get(), bytes,
                            cudaMemcpyHostToDevice));
  run.Right("bytes", Contents(device.get(), bytes) == plain);
  run.Code("unregister it", cudaHostUnregister(plain.data()));
  run.Code("unregister it again", cudaHostUnregister(plain.data()));
  run.Code("last", cudaGetLastError());
  Query(run, "block", block.get() + bytes - 1);
  Query(run, "plain again", plain.data());
}

// Rule 18: small blocks, many of them.
void SmallBlocks(Run& run) {
  constexpr size_t kBlocks = 60;
  std::vector<std::unique_ptr<Pinned>> blocks;
  Device device(kBlocks * 65'536);
  Stream stream;
  size_t bytes = 0;
  std::vector<unsigned char> expected;
  for (size_t i = 0; i < kBlocks; ++i) {
    const size_t size =
        run.Pick<size_t>({1, 17, 256, 4096, run.Between(1, 65'536), 65'536});
    blocks.push_back(std::make_unique<Pinned>(size));
    run.Fill(blocks[i]->get(), size);
    expected.insert(expected.end(), blocks[i]->get(), blocks[i]->get() + size);
    // As a kernel would read it: by its address, from the device's side.
    void* shared = nullptr;
    if (run.OneIn(2)) {
      run.Code("device pointer",
               cudaHostGetDevicePointer(&shared, blocks[i]->get(), 0));
    } else {
      shared = blocks[i]->get();
    }
    run.Code("copy", cudaMemcpyAsync(device.get() + bytes, shared, size,
                                     cudaMemcpyDefault, stream));
    bytes += size;
    if (run.OneIn(5)) {
      CHECK_OK(cudaStreamSynchronize(stream));
      Query(run, "attributes", blocks[i]->get() + size - 1);
    }
  }
  run.Code("sync", cudaStreamSynchronize(stream));
  run.Right("bytes", Contents(device.get(), bytes) == expected);
}

}  // namespace

std::vector<Scenario> AttributeScenarios() {
  return {{"15", "everywhere", Everywhere},
          {"15", "one_past_the_end", OnePastTheEnd, 20},
          {"16", "device_pointer", DevicePointer, 50},
          {"16", "device_pointer_while_held", DevicePointerWhileHeld, 30,
           Needs::kQueueing},
          {"16", "mapped_memory", MappedMemory, 30},
          {"17", "registering", Registering, 10},
          {"18", "small_blocks", SmallBlocks, 20}};
}

}  // namespace conformance
