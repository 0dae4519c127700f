#include "tests/fuzz/decoder.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "include/pinring/pinring.h"
#include "tests/fuzz/order.h"

namespace pinring::fuzz {
namespace {

constexpr size_t kMostOperations = 160;
constexpr size_t kMostLiveBytes = size_t{3} << 19;
// What may be queued behind closed gates, in operations and chunks: less than
// the depth that the README states.
constexpr size_t kMostQueued = 300;
constexpr size_t kSmallestSlot = 4096;

// Slots of any size for as many streams as a program has.
constexpr size_t kRoomyRing = 1 << 20;

class Bytes {
 public:
  Bytes(const uint8_t* data, size_t size) : at_(data), end_(data + size) {}
  bool empty() const { return at_ == end_; }
  // 0 once all is read.
  size_t Pick(size_t n) {
    if (n <= 1) return 0;
    size_t value = Next();
    if (n > 256) value = value << 8 | Next();
    if (n > 65'536) value = value << 8 | Next();
    return value % n;
  }
  bool OneIn(size_t n) { return Pick(n) == n - 1; }
  template <typename T, size_t n>
  T Of(const T (&values)[n]) {
    return values[Pick(n)];
  }

 private:
  size_t Next() { return at_ == end_ ? 0 : *at_++; }

  const uint8_t* at_;
  const uint8_t* const end_;
};

struct BlockState {
  bool live = false;
  size_t bytes = 0;
};

struct EventState {
  bool recorded = false;
  Point point;
};

struct GraphState {
  bool live = false;
  std::vector<Access> accesses;
  Point latest;
};

class Decoder {
 public:
  Decoder(const uint8_t* data, size_t size) : in_(data, size) {}

  Program Run() {
    Configure();
    streams_.fill(OrderModel::kNone);
    streams_[kLegacyStream] = order_.AddStream(true, false);
    streams_[kThreadStream] = order_.AddStream(false, true);
    streams_[kFirstMadeStream] = order_.AddStream(false, false);
    streams_[kFirstMadeStream + 1] = order_.AddStream(false, true);
    while (!in_.empty() && program_.operations.size() < kMostOperations) {
      Step();
    }
    EndCapture();
    AllowAll();
    DeviceSync();
    for (int i = 0; i < kBlocks; ++i) {
      if (blocks_[i].live) LookAt({MemoryKind::kBlock, i});
    }
    for (int i = 0; i < kPlainBuffers; ++i) LookAt({MemoryKind::kPlain, i});
    for (int i = 0; i < kRegistrableBuffers; ++i) {
      LookAt({MemoryKind::kRegistrable, i});
    }
    return std::move(program_);
  }

 private:
  void Configure();
  void Step();
  void StepLibrary(size_t pick);
  void StepStream(size_t pick);

  Operation& Emit(Operation op) {
    program_.operations.push_back(std::move(op));
    return program_.operations.back();
  }
  Operation& EmitLibrary(Operation op) {
    AddFaults(&op);
    return Emit(std::move(op));
  }
  void AddFaults(Operation* op);

  // What may come in between.
  void AllowAll() {
    if (order_.closed() == 0) return;
    Emit({.kind = OpKind::kAllow, .mask = order_.closed()});
    order_.Allow(order_.closed());
  }
  void DeviceSync() {
    AllowAll();
    Emit({.kind = OpKind::kDeviceSync});
    order_.HostWaitsForAll();
    queued_ = 0;
  }
  int IndexOf(StreamId id) const {
    for (int i = 0; i < kStreams; ++i) {
      if (streams_[i] == id) return i;
    }
    return -1;
  }
  void SyncWith(StreamId id) {
    const int index = IndexOf(id);
    if (index < 0) return DeviceSync();
    AllowAll();
    Emit({.kind = OpKind::kStreamSync, .stream = index});
    // What is synchronized with is all that came before in it.
    order_.HostWaitsFor(order_.Tail(id));
  }
  void OrderHost(const Access& access, bool strict) {
    for (;;) {
      const StreamId id = order_.HostConflict(access, strict);
      if (id == OrderModel::kNone) return;
      SyncWith(id);
    }
  }
  // Queues an operation with its accesses, behind what they conflict with.
  void Queue(int stream, const std::vector<Access>& accesses,
             const Point* after = nullptr) {
    for (const Access& access : accesses) {
      if (access.early) OrderHost(access, true);
    }
    const StreamId self = streams_[stream];
    for (const Access& access : accesses) {
      for (;;) {
        Point point = order_.Next(self);
        if (after != nullptr) point.Join(*after);
        const StreamId other = order_.Conflict(point, access);
        if (other == OrderModel::kNone) break;
        WaitFor(stream, other);
      }
    }
    Point point = order_.Next(self);
    if (after != nullptr) point.Join(*after);
    order_.Enqueue(self, point, accesses);
    Count(1);
  }
  void WaitFor(int stream, StreamId other) {
    const int index = IndexOf(other);
    if (index < 0) return DeviceSync();
    Emit({.kind = OpKind::kRecord, .index = kEvents, .stream = index});
    Emit({.kind = OpKind::kWaitEvent, .index = kEvents, .stream = stream});
    order_.WaitForEvent(streams_[stream], order_.Tail(other));
    Count(2);
  }
  void Count(size_t queued) { queued_ += queued; }
  void MakeRoom(size_t more) {
    if (queued_ + more > kMostQueued) DeviceSync();
  }

  Object PickHost(bool plain);
  size_t Size(const Object& object) const {
    return object.kind == MemoryKind::kBlock ? blocks_[object.index].bytes
                                             : BytesOf(object);
  }
  size_t PickOffset(size_t size) {
    if (size < 2) return 0;
    switch (in_.Pick(4)) {
      case 0:
      case 1:
        return 0;
      case 2:
        return std::min<size_t>(in_.Pick(200), size - 1);
      default:
        return in_.Pick(size);
    }
  }
  size_t PickLength(size_t most) {
    if (most == 0) return 0;
    switch (in_.Pick(5)) {
      case 0:
        return most;
      case 1:
        return std::min(most, in_.Pick(300));
      case 2:
        return std::min(most, (in_.Pick(12) << 12) + in_.Pick(3));
      default:
        return 1 + in_.Pick(most);
    }
  }
  int PickStream() {
    for (int tries = 0; tries < 3; ++tries) {
      const int index = static_cast<int>(in_.Pick(kStreams));
      if (streams_[index] != OrderModel::kNone) return index;
    }
    return kLegacyStream;
  }
  int LiveBlock() {
    const int first = static_cast<int>(in_.Pick(kBlocks));
    for (int i = 0; i < kBlocks; ++i) {
      if (blocks_[(first + i) % kBlocks].live) return (first + i) % kBlocks;
    }
    return -1;
  }
  uint64_t Seed() { return ++seed_; }

  void Alloc();
  void Free();
  void DoCopy();
  bool MakeLayout(Copy* copy);
  bool MakeArrayLayout(Copy* copy);
  void MakeRefused(Copy* copy);
  void Memset();
  void HostAccess(bool write);
  void HostFunction(bool write);
  void LookAt(const Object& object) {
    Emit({.kind = OpKind::kLook, .object = object, .bytes = Size(object)});
  }
  void BeginCapture();
  void CaptureCopy();
  void EndCapture();
  void LaunchGraph();
  void DropGraph(int index);

  Bytes in_;
  Program program_;
  OrderModel order_;
  bool faulty_ = false;
  bool lost_ = false;
  uint64_t seed_ = 0;
  size_t queued_ = 0;
  size_t live_bytes_ = 0;
  std::array<StreamId, kStreams> streams_;
  std::array<BlockState, kBlocks> blocks_;
  std::array<bool, kRegistrableBuffers> registered_ = {};
  std::array<EventState, kEvents> events_;
  std::array<GraphState, kGraphs> graphs_;
  int gates_ = 0;
  int capturing_ = -1;  // a stream's index
  std::vector<Access> captured_;
  std::vector<int> instances_ = {0};  // the last is current
  size_t ring_ = 0;
};

void Decoder::Configure() {
  Configuration& c = program_.configuration;
  c.schedule_seed = 1 + in_.Pick(65'536);
  static constexpr size_t kRings[] = {64 << 10, 128 << 10, 256 << 10, 1 << 20};
  static constexpr size_t kSlots[] = {0, 4 << 10, 8 << 10, 16 << 10};
  static constexpr size_t kLimits[] = {4096, 0, 256, 64 << 10};
  static constexpr size_t kPools[] = {256 << 10, 0, 64 << 10, 1 << 20};
  ring_ = in_.Of(kRings);
  const size_t slot = in_.Of(kSlots);
  const size_t slots = in_.Pick(4);
  const size_t small_limit = in_.Of(kLimits);
  const size_t small_pool = in_.Of(kPools);
  c.movers = 1 + static_cast<int>(in_.Pick(3));
  c.settings = absl::StrCat(
      "ring_bytes=", ring_, ",slot_bytes=", slot, ",slots_per_stream=", slots,
      ",small_limit_bytes=", small_limit, ",small_pool_bytes=", small_pool);
  simcuda::MachineOptions& m = c.machine;
  static constexpr size_t kSteps[] = {16 << 10, 64 << 10, 4096, 700};
  static constexpr int kQueues[] = {8, 4, 2, 1};
  m.copy_step_bytes = in_.Of(kSteps);
  m.compute_queues = in_.Of(kQueues);
  m.h2d_queues = m.d2h_queues = in_.Of(kQueues);
  switch (in_.Pick(20)) {
    case 10:
      m.one_queue = true;
      break;
    case 11:
      m.launch_blocking = true;
      c.copies_may_wait = true;
      break;
    case 12:
      m.stream_memory_operations = false;
      c.copies_may_wait = true;  // those of memory that is no block
      break;
    case 13:
      m.host_register_supported = false;
      c.limited = c.copies_may_wait = true;
      break;
    case 14:
      absl::StrAppend(&c.settings, ",promote=off");
      c.copies_may_wait = true;
      break;
    case 15:
      c.pinned_limit_bytes = (size_t{1} << 20) + in_.Pick(1 << 20);
      absl::StrAppend(&c.settings,
                      ",pinned_limit_bytes=", c.pinned_limit_bytes);
      c.limited = c.copies_may_wait = true;
      break;
    case 16:
      m.host_pinnable_bytes = (256 << 10) + in_.Pick(1 << 20);
      c.limited = c.copies_may_wait = true;
      break;
    case 17:
      m.wddm = true;
      m.wddm_batch_operations = 8;
      break;
    case 18:
      m.small_copy_bytes = 256;
      break;
    default:
      break;
  }
  faulty_ = in_.OneIn(4);
  if (faulty_) c.copies_may_wait = true;
}

void Decoder::AddFaults(Operation* op) {
  if (!faulty_ || lost_ || !in_.OneIn(6)) return;
  // What falls back waits for the stream.
  AllowAll();
  static constexpr CUresult kCodes[] = {
      CUDA_ERROR_UNKNOWN, CUDA_ERROR_OUT_OF_MEMORY, CUDA_ERROR_LAUNCH_FAILED,
      CUDA_ERROR_INVALID_VALUE};
  simcuda::Fault fault{"*", in_.Pick(24), in_.Of(kCodes), in_.OneIn(10)};
  if (fault.sticky) {
    fault.code = CUDA_ERROR_LAUNCH_FAILED;
    lost_ = true;
  }
  op->faults.push_back(fault);
  if (in_.OneIn(5)) {
    for (uint64_t call = 0; call < 20; ++call) {
      op->faults.push_back({"cuStreamWriteValue32", call, fault.code});
    }
  }
}

void Decoder::Step() {
  if (capturing_ >= 0) {
    if (in_.Pick(4) < 3) return CaptureCopy();
    return EndCapture();
  }
  MakeRoom(1);
  const size_t pick = in_.Pick(100);
  pick < 62 ? StepLibrary(pick) : StepStream(pick - 62);
}

void Decoder::StepLibrary(size_t pick) {
  if (pick < 9) return Alloc();
  if (pick < 13) return Free();
  if (pick < 42) return DoCopy();
  const int block = LiveBlock();
  const Object object = {MemoryKind::kBlock, block};
  if (pick < 44) {
    static constexpr int kVariants[] = {0, 1, 2, 4};
    const int variant = in_.Of(kVariants);
    if (variant == 0 && block < 0) return;
    EmitLibrary({.kind = OpKind::kFreeInvalid,
                 .index = std::max(block, 0),
                 .variant = variant});
  } else if (pick < 46) {
    if (block >= 0) {
      EmitLibrary({.kind = OpKind::kPromote, .index = block});
    }
  } else if (pick < 47) {
    if (block < 0) return;
    EmitLibrary({.kind = OpKind::kDevicePointer,
                 .index = block,
                 .offset = PickOffset(Size(object))});
  } else if (pick < 50) {
    Memset();
  } else if (pick < 52) {
    if (block < 0) return;
    const size_t bytes = Size(object);
    const size_t offsets[] = {0, 1 % bytes, bytes - 1, bytes, bytes / 2};
    EmitLibrary({.kind = OpKind::kAttributes,
                 .object = object,
                 .offset = offsets[in_.Pick(5)]});
  } else if (pick < 53) {
    if (block >= 0) EmitLibrary({.kind = OpKind::kHostFlags, .index = block});
  } else if (pick < 56) {
    const bool over_block = block >= 0 && in_.OneIn(4);
    const int index = over_block ? block : static_cast<int>(in_.Pick(2));
    EmitLibrary({.kind = OpKind::kRegister,
                 .index = index,
                 .variant = over_block ? 1 : 0,
                 .offset = over_block ? PickOffset(Size(object)) : 0});
    if (!over_block) registered_[static_cast<size_t>(index)] = true;
  } else if (pick < 58) {
    const bool of_block = block >= 0 && in_.OneIn(3);
    const int index = of_block ? block : static_cast<int>(in_.Pick(2));
    AllowAll();
    if (!of_block) {
      const Object memory = {MemoryKind::kRegistrable, index};
      OrderHost({.object = memory, .end = Size(memory), .write = true}, true);
      for (int i = 0; i < kGraphs; ++i) DropGraph(i);
      registered_[static_cast<size_t>(index)] = false;
    }
    Operation op{.kind = OpKind::kUnregister,
                 .index = index,
                 .variant = of_block ? 1 : 0};
    // One that failed would leave the memory registered.
    if (of_block) AddFaults(&op);
    Emit(std::move(op));
  } else if (pick < 60) {
    if (instances_.size() < 4) {
      instances_.push_back(static_cast<int>(in_.Pick(2)));
      Emit({.kind = OpKind::kPushInstance, .variant = instances_.back()});
    } else {
      instances_.pop_back();
      Emit({.kind = OpKind::kPopInstance});
    }
  } else {
    BeginCapture();
  }
}

void Decoder::StepStream(size_t pick) {
  const int stream = PickStream();
  const StreamId id = streams_[stream];
  const int event = static_cast<int>(in_.Pick(kEvents));
  EventState& state = events_[static_cast<size_t>(event)];
  if (pick < 4) {
    if (gates_ == kGates) return;
    if (program_.configuration.machine.launch_blocking) return;
    Emit({.kind = OpKind::kHold, .index = gates_, .stream = stream});
    order_.Close(id, gates_++);
  } else if (pick < 6) {
    AllowAll();
  } else if (pick < 9) {
    Emit({.kind = OpKind::kRecord, .index = event, .stream = stream});
    Count(1);
    state = {true, order_.Tail(id)};
  } else if (pick < 12) {
    if (!state.recorded) return;
    Emit({.kind = OpKind::kWaitEvent, .index = event, .stream = stream});
    order_.WaitForEvent(id, state.point);
    Count(1);
  } else if (pick < 15) {
    if (!state.recorded) return;
    if (order_.Held(state.point) && in_.OneIn(2)) {
      Emit({.kind = OpKind::kEventBusy, .index = event});
      return;
    }
    AllowAll();
    Emit({.kind = in_.OneIn(2) ? OpKind::kEventPoll : OpKind::kEventSync,
          .index = event});
    order_.HostWaitsFor(state.point);
  } else if (pick < 19) {
    if (order_.Held(order_.Tail(id)) && in_.OneIn(2)) {
      Emit({.kind = OpKind::kStreamBusy, .stream = stream});
      return;
    }
    AllowAll();
    Emit({.kind = in_.OneIn(2) ? OpKind::kStreamPoll : OpKind::kStreamSync,
          .stream = stream});
    order_.HostWaitsFor(order_.Tail(id));
  } else if (pick < 20) {
    DeviceSync();
  } else if (pick < 22) {
    if (stream < kFirstMadeStream) return;
    Emit({.kind = OpKind::kStreamDestroy, .stream = stream});
    order_.EndStream(id);
    streams_[stream] = OrderModel::kNone;
  } else if (pick < 24) {
    for (int i = kFirstMadeStream; i < kStreams; ++i) {
      if (streams_[i] != OrderModel::kNone) continue;
      const bool blocking = in_.OneIn(3);
      const StreamId made = order_.AddStream(false, blocking);
      if (made == OrderModel::kNone) return;
      streams_[i] = made;
      Emit({.kind = OpKind::kStreamCreate,
            .stream = i,
            .variant = blocking ? 1 : 0});
      return;
    }
  } else if (pick < 27) {
    const int index = static_cast<int>(in_.Pick(kDeviceBuffers));
    const Object object = {MemoryKind::kDevice, index};
    Queue(stream, {{.object = object, .end = Size(object), .write = true}});
    Emit({.kind = OpKind::kDeviceFill,
          .index = index,
          .stream = stream,
          .seed = Seed()});
  } else if (pick < 29) {
    HostFunction(in_.OneIn(2));
  } else if (pick < 32) {
    HostAccess(true);
  } else if (pick < 35) {
    HostAccess(false);
  } else {
    LaunchGraph();
  }
}

Object Decoder::PickHost(bool plain) {
  const size_t pick = in_.Pick(8);
  if (plain && pick < 4) {
    return {MemoryKind::kPlain, static_cast<int>(in_.Pick(kPlainBuffers))};
  }
  if (pick == 7) {
    const int index = static_cast<int>(in_.Pick(kRegistrableBuffers));
    if (registered_[static_cast<size_t>(index)]) {
      return {MemoryKind::kRegistrable, index};
    }
  }
  return {MemoryKind::kBlock, LiveBlock()};
}

void Decoder::Alloc() {
  int index = 0;
  while (index < kBlocks && blocks_[index].live) ++index;
  if (index == kBlocks) return Free();
  static constexpr size_t kSizes[] = {
      0,     1,      255,    256,    257,    4095,    4096,    4097,   8192,
      16384, 20'000, 65'535, 65'536, 65'537, 100'000, 131'072, 262'145};
  size_t bytes = 0;
  switch (in_.Pick(8)) {
    case 0:
    case 1:
    case 2:
      bytes = in_.Of(kSizes);
      break;
    case 3:
      bytes = 1 + in_.Pick(300);
      break;
    case 4:
      bytes = 5000;
      // On WDDM one refusal is the end of all pinning.
      if (in_.OneIn(16) && !program_.configuration.machine.wddm) {
        bytes = SIZE_MAX;
      }
      break;
    default:
      bytes = 1 + in_.Pick(200'000);
  }
  static constexpr unsigned kFlags[] = {0, 0, 0, 0, 0, 1, 2, 4, 3, 7};
  unsigned flags = in_.Of(kFlags);
  if (bytes != 0 && in_.OneIn(40)) flags = 0x40;
  const bool made = bytes > 0 && bytes != SIZE_MAX && flags < 8;
  if (made && live_bytes_ + bytes > kMostLiveBytes) return Free();
  EmitLibrary({.kind = OpKind::kAlloc,
               .index = index,
               .bytes = bytes,
               .flags = flags,
               .seed = Seed()});
  if (!made) return;
  live_bytes_ += bytes;
  blocks_[index] = {true, bytes};
}

void Decoder::Free() {
  const int index = LiveBlock();
  if (index < 0) return;
  const Object object = {MemoryKind::kBlock, index};
  for (;;) {
    const StreamId id = order_.HostFunctionUses(object);
    if (id == OrderModel::kNone) break;
    SyncWith(id);
  }
  for (int i = 0; i < kGraphs; ++i) {
    const auto& accesses = graphs_[i].accesses;
    if (std::any_of(accesses.begin(), accesses.end(),
                    [&](const Access& a) { return a.object == object; })) {
      DropGraph(i);
    }
  }
  // Natively it waits for the device.
  AllowAll();
  EmitLibrary({.kind = OpKind::kFree, .index = index});
  live_bytes_ -= blocks_[index].bytes;
  blocks_[index] = {};
  order_.Forget(object);
  if (in_.OneIn(8)) Emit({.kind = OpKind::kFreeInvalid, .variant = 3});
}

bool Decoder::MakeArrayLayout(Copy* copy) {
  const bool to = copy->dst.object.kind == MemoryKind::kArray;
  CopyEnd& array = to ? copy->dst : copy->src;
  CopyEnd& memory = to ? copy->src : copy->dst;
  const size_t row_elements =
      kArrayRowBytes[array.object.index] / kElementBytes;
  const size_t rows = kArrayRows[array.object.index];
  const size_t size = Size(memory.object);
  memory.offset = PickOffset(size);
  const size_t left = size - memory.offset;
  const size_t x = in_.Pick(row_elements);
  const size_t most = std::min(row_elements - x, left / kElementBytes);
  if (most == 0) return false;
  array.offset = x * kElementBytes;
  array.rows = in_.Pick(rows);
  copy->width = kElementBytes * (1 + in_.Pick(most));
  memory.pitch = copy->width + in_.Pick(9);
  copy->height =
      1 + in_.Pick(std::min(rows - array.rows,
                            (left - copy->width) / memory.pitch + 1));
  return true;
}

bool Decoder::MakeLayout(Copy* copy) {
  if (copy->form == CopyForm::kOfArray) return MakeArrayLayout(copy);
  const size_t dst_size = Size(copy->dst.object);
  const size_t src_size = Size(copy->src.object);
  copy->dst.offset = PickOffset(dst_size);
  copy->src.offset = PickOffset(src_size);
  const size_t dst_left = dst_size - copy->dst.offset;
  const size_t src_left = src_size - copy->src.offset;
  const size_t most = std::min(dst_left, src_left);
  if (copy->form == CopyForm::kFlat || copy->form == CopyForm::kPageable ||
      copy->form == CopyForm::kPeer) {
    copy->width = PickLength(most);
    return true;
  }
  static constexpr size_t kWidths[] = {1, 60, 1000, 20'000};
  static constexpr size_t kGaps[] = {0, 1, 7, 100};
  copy->width = 1 + in_.Pick(std::min(most, in_.Of(kWidths)));
  copy->dst.pitch = copy->width + in_.Of(kGaps);
  copy->src.pitch = copy->width + in_.Of(kGaps);
  const size_t rows = std::min((dst_left - copy->width) / copy->dst.pitch,
                               (src_left - copy->width) / copy->src.pitch) +
                      1;
  copy->height = 1 + in_.Pick(std::min<size_t>(rows, 300));
  copy->dst.rows = copy->src.rows = copy->height;
  if (IsBox(copy->form)) {
    copy->dst.rows += in_.Pick(3);
    copy->src.rows += in_.Pick(3);
    const auto slices = [&](const CopyEnd& end, size_t left) {
      const size_t slice = (copy->height - 1) * end.pitch + copy->width;
      return (left - slice) / (end.rows * end.pitch) + 1;
    };
    const size_t most_slices =
        std::min(slices(copy->dst, dst_left), slices(copy->src, src_left));
    copy->depth = 1 + in_.Pick(std::min<size_t>(most_slices, 4));
  }
  return true;
}

// Makes the copy reach beyond one of its ends whose end the driver knows.
void Decoder::MakeRefused(Copy* copy) {
  copy->refused = true;
  if (copy->form == CopyForm::kOfArray) {
    const CopyEnd& end =
        copy->dst.object.kind == MemoryKind::kArray ? copy->dst : copy->src;
    copy->height = kArrayRows[end.object.index] - end.rows + 1;
    return;
  }
  if (in_.OneIn(3) && copy->width > 0 && !IsPeer(copy->form)) {
    copy->direction = 9;
    return;
  }
  const auto known = [&](const Object& object) {
    return object.kind == MemoryKind::kDevice ||
           object.kind == MemoryKind::kBlock;
  };
  const CopyEnd& end = known(copy->dst.object) ? copy->dst : copy->src;
  if (!known(end.object)) {
    copy->refused = false;
    return;
  }
  const size_t left = Size(end.object) - end.offset;
  copy->width = left + 1 + in_.Pick(3) * 1000;
  copy->height = copy->depth = 1;
  copy->dst.pitch = copy->src.pitch = copy->width;
  copy->dst.rows = copy->src.rows = 1;
}

size_t Extent(const Copy& copy, const CopyEnd& end) {
  return (copy.depth - 1) * end.rows * end.pitch +
         (copy.height - 1) * end.pitch + copy.width;
}

// An array is accessed as one.
Access AccessOf(const Copy& copy, const CopyEnd& end, bool write, bool early) {
  const bool array = end.object.kind == MemoryKind::kArray;
  return {.object = end.object,
          .begin = array ? 0 : end.offset,
          .end = array ? 1 : end.offset + Extent(copy, end),
          .write = write,
          .early = early};
}

void Decoder::DoCopy() {
  Operation op{.kind = OpKind::kCopy, .stream = PickStream()};
  Copy& copy = op.copy;
  static constexpr CopyForm kForms[] = {
      CopyForm::kFlat,     CopyForm::kFlat,       CopyForm::kFlat,
      CopyForm::kRows,     CopyForm::kBox,        CopyForm::kPageable,
      CopyForm::kPageable, CopyForm::kPeer,       CopyForm::kPeerBox,
      CopyForm::kOfArray,  CopyForm::kPageableBox};
  copy.form = in_.Of(kForms);
  const bool pageable = IsPageable(copy.form);
  copy.wait = in_.OneIn(5) && copy.form != CopyForm::kPageableBox;
  if (copy.wait && !pageable) op.stream = kLegacyStream;
  if (pageable && !copy.wait) copy.access = 1 + static_cast<int>(in_.Pick(3));
  const size_t way = in_.Pick(12);
  const Object device = {MemoryKind::kDevice,
                         static_cast<int>(in_.Pick(kDeviceBuffers))};
  if (way < 5) {
    copy.src.object = PickHost(pageable);
    copy.dst.object = device;
    copy.direction = cudaMemcpyHostToDevice;
  } else if (way < 10) {
    copy.src.object = device;
    copy.dst.object = PickHost(pageable);
    copy.direction = cudaMemcpyDeviceToHost;
  } else if (way == 10) {
    copy.src.object = device;
    copy.dst.object = {MemoryKind::kDevice,
                       (device.index + 1) % kDeviceBuffers};
    copy.direction = cudaMemcpyDeviceToDevice;
  } else {
    copy.src.object = PickHost(false);
    copy.dst.object = PickHost(false);
    if (copy.src.object == copy.dst.object) return;
    copy.direction = cudaMemcpyHostToHost;
  }
  if (copy.form == CopyForm::kOfArray) {
    const Object array = {MemoryKind::kArray,
                          static_cast<int>(in_.Pick(kArrays))};
    (copy.direction == cudaMemcpyDeviceToHost || way == 11 ? copy.src.object
                                                           : copy.dst.object) =
        array;
    if (way == 11) copy.direction = cudaMemcpyDeviceToHost;
  }
  if (copy.src.object.index < 0 || copy.dst.object.index < 0) return;
  if (!MakeLayout(&copy)) return;
  const bool any_direction = copy.form != CopyForm::kOfArray;
  switch (in_.Pick(any_direction ? 6 : 5)) {
    case 4:
      copy.direction = cudaMemcpyDefault;
      break;
    case 5:
      copy.direction = static_cast<int>(in_.Pick(5));
      break;
    default:
      break;
  }
  if (in_.OneIn(24)) MakeRefused(&copy);

  const bool on_host = way == 11 && copy.form != CopyForm::kOfArray;
  const bool on_device = way == 10;
  const bool during_call = pageable && copy.access == pinringAccessDuringCall;
  // Where no slot is left, memory that is no block cannot be promoted.
  const bool plain = copy.src.object.kind == MemoryKind::kPlain ||
                     copy.dst.object.kind == MemoryKind::kPlain;
  const bool plain_waits =
      plain && (ring_ < kRoomyRing || instances_.back() != 0);
  if (copy.wait || during_call || on_host || plain_waits ||
      program_.configuration.copies_may_wait) {
    AllowAll();
  }
  // Nothing to copy is nothing to wait for either.
  if (copy.refused || copy.width == 0) {
    EmitLibrary(std::move(op));
    return;
  }
  const size_t bytes = copy.width * copy.height * copy.depth;
  const size_t chunks = 1 + bytes / kSmallestSlot;
  MakeRoom(2 * chunks);
  const bool early = pageable && copy.access != pinringAccessStream;
  const bool from_host = copy.src.object.kind != MemoryKind::kDevice &&
                         copy.src.object.kind != MemoryKind::kArray;
  Queue(op.stream, {AccessOf(copy, copy.src, false, early && from_host),
                    AccessOf(copy, copy.dst, true, false)});
  Count(chunks);
  const int stream = op.stream;
  const bool joins = copy.wait && !on_device;
  // Queueing may have closed nothing, but a wait put in between opens all.
  EmitLibrary(std::move(op));
  if (joins) order_.HostWaitsFor(order_.Tail(streams_[stream]));
  if (during_call && !on_device && from_host) {
    // The source is the host's again.
    order_.EndEarly(copy.src.object, streams_[stream]);
  } else if (during_call && !on_device) {
    order_.HostWaitsFor(order_.Tail(streams_[stream]));
  }
}

void Decoder::Memset() {
  const Object object = in_.OneIn(3)
                            ? Object{MemoryKind::kDevice,
                                     static_cast<int>(in_.Pick(kDeviceBuffers))}
                            : PickHost(false);
  if (object.index < 0) return;
  const bool wait = in_.OneIn(4);
  const int stream = wait ? kLegacyStream : PickStream();
  const size_t offset = PickOffset(Size(object));
  const size_t bytes = PickLength(Size(object) - offset);
  if (bytes == 0) return;
  if (wait || program_.configuration.copies_may_wait) AllowAll();
  const size_t chunks = 1 + bytes / kSmallestSlot;
  MakeRoom(2 * chunks);
  Queue(stream, {{.object = object,
                  .begin = offset,
                  .end = offset + bytes,
                  .write = true}});
  Count(chunks);
  EmitLibrary({.kind = OpKind::kMemset,
               .stream = stream,
               .variant = wait ? 1 : 0,
               .object = object,
               .offset = offset,
               .bytes = bytes,
               .seed = Seed() & 0xff});
  if (wait && object.kind != MemoryKind::kDevice) {
    order_.HostWaitsFor(order_.Tail(streams_[stream]));
  }
}

void Decoder::HostAccess(bool write) {
  Object object = PickHost(true);
  if (object.index < 0) return;
  const size_t size = Size(object);
  const size_t offset = PickOffset(size);
  const size_t bytes = write ? PickLength(size - offset) : size - offset;
  OrderHost({.object = object,
             .begin = offset,
             .end = offset + bytes,
             .write = write},
            false);
  Emit({.kind = write ? OpKind::kFill : OpKind::kLook,
        .object = object,
        .offset = offset,
        .bytes = bytes,
        .seed = Seed()});
}

void Decoder::HostFunction(bool write) {
  const int stream = PickStream();
  const Object object = PickHost(true);
  if (object.index < 0) return;
  const size_t size = Size(object);
  const size_t offset = PickOffset(size);
  const size_t bytes = PickLength(size - offset);
  Queue(stream, {{.object = object,
                  .begin = offset,
                  .end = offset + bytes,
                  .write = write,
                  .host_function = true}});
  Emit({.kind = write ? OpKind::kHostFunctionFill : OpKind::kHostFunctionLook,
        .stream = stream,
        .object = object,
        .offset = offset,
        .bytes = bytes,
        .seed = Seed()});
}

void Decoder::BeginCapture() {
  const int stream = PickStream();
  if (stream == kLegacyStream) return;
  Emit({.kind = OpKind::kBeginCapture,
        .stream = stream,
        .variant = static_cast<int>(in_.Pick(4))});
  capturing_ = stream;
  captured_.clear();
}

void Decoder::CaptureCopy() {
  Operation op{.kind = OpKind::kCopy, .stream = capturing_};
  Copy& copy = op.copy;
  static constexpr CopyForm kForms[] = {CopyForm::kFlat, CopyForm::kRows,
                                        CopyForm::kBox, CopyForm::kPeer};
  copy.form = in_.Of(kForms);
  const Object host = PickHost(false);
  if (host.index < 0) return EndCapture();
  const Object device = {MemoryKind::kDevice,
                         static_cast<int>(in_.Pick(kDeviceBuffers))};
  const bool in = in_.OneIn(2);
  copy.src.object = in ? host : device;
  copy.dst.object = in ? device : host;
  copy.direction = in ? cudaMemcpyHostToDevice : cudaMemcpyDeviceToHost;
  if (!MakeLayout(&copy) || copy.width == 0) return;
  captured_.push_back(AccessOf(copy, copy.src, false, false));
  captured_.push_back(AccessOf(copy, copy.dst, true, false));
  EmitLibrary(std::move(op));
}

void Decoder::EndCapture() {
  if (capturing_ < 0) return;
  const int index = static_cast<int>(in_.Pick(kGraphs));
  const int stream = std::exchange(capturing_, -1);
  Emit({.kind = OpKind::kEndCapture, .index = index, .stream = stream});
  graphs_[index] = {true, std::move(captured_), {}};
  captured_.clear();
}

void Decoder::LaunchGraph() {
  const int index = static_cast<int>(in_.Pick(kGraphs));
  if (!graphs_[index].live) return BeginCapture();
  const int stream = PickStream();
  // A graph of nothing waits for nothing.
  if (!graphs_[index].accesses.empty()) {
    MakeRoom(graphs_[index].accesses.size() + 1);
    if (program_.configuration.copies_may_wait) AllowAll();
    const Point latest = graphs_[index].latest;
    Queue(stream, graphs_[index].accesses, &latest);
    Count(graphs_[index].accesses.size());
    graphs_[index].latest = order_.Tail(streams_[stream]);
  }
  Emit({.kind = OpKind::kLaunchGraph, .index = index, .stream = stream});
}

void Decoder::DropGraph(int index) {
  if (!graphs_[index].live) return;
  Emit({.kind = OpKind::kDropGraph, .index = index});
  graphs_[index] = {};
}

}  // namespace

Program Decode(const uint8_t* data, size_t size) {
  return Decoder(data, size).Run();
}

}  // namespace pinring::fuzz
