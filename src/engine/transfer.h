// One copy that a program asked for, cut into chunks.

#ifndef PINRING_SRC_ENGINE_TRANSFER_H_
#define PINRING_SRC_ENGINE_TRANSFER_H_

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "src/engine/shape.h"
#include "src/ring/flags.h"
#include "src/ring/slots.h"

namespace pinring {

enum class Direction : uint8_t { kHostToDevice, kDeviceToHost };

// When the host's end of a copy may be read or written.
enum class HostAccess : uint8_t {
  kInStreamOrder,  // when the stream gets there, as pinned memory
  kDuringCall,     // before the call returns
  kAnyTime,        // read from the call on, until the copy is done
};

// The stream that a copy was enqueued to. A stream's handle can come back for
// another stream after it is destroyed, its id not.
struct StreamKey {
  const void* context = nullptr;
  uint64_t stream_id = 0;

  friend bool operator==(const StreamKey& a, const StreamKey& b) {
    return a.context == b.context && a.stream_id == b.stream_id;
  }
  template <typename H>
  friend H AbslHashValue(H state, const StreamKey& key) {
    return H::combine(std::move(state), key.context, key.stream_id);
  }
};

// The last chunk that went through a slot, for the next one to wait for.
struct SlotUse {
  bool used = false;
  Direction direction = Direction::kHostToDevice;
  uint32_t line = 0;
  Sequence chunk = 0;
};

// Guarded by the lock of the Core that made it, but for the constant part.
struct Transfer {
  // Constant once published.
  Direction direction = Direction::kHostToDevice;
  std::byte* host = nullptr;  // the first byte, in the staged block
  Shape shape;
  uint64_t bytes = 0;  // of the shape
  Cut cut;             // of its packed bytes
  uint32_t chunks = 0;
  size_t places = 0;  // that its calls take in the driver's queue
  const void* context = nullptr;
  uint32_t line = 0;
  Sequence number = 0;      // of the line's transfers
  Sequence first = 0;       // chunk i has the sequence number first + 1 + i
  std::vector<Slot> slots;  // chunk i goes through slots[i % slots.size()]
  std::vector<SlotUse> previous;  // who used slots[i] before this transfer
  // Host to device: the caller enqueues each chunk's copy once the chunk is
  // filled, so that the stream waits for nothing.
  bool driven = false;
  bool hands_over = false;  // see copy::HandOver
  // Device to host: so many chunks find their slots free, whenever the stream
  // gets there, and wait for no permission.
  uint32_t unasked = 0;
  bool reads_early = false;  // host to device: slots may be filled before the
                             // stream gets here
  bool replayed = false;     // of an executable graph (graph_core.h)
  // Device to host, where the bytes come from no device: the movers write this
  // value. One chunk, whatever its size, and no slots.
  std::optional<unsigned char> fill = std::nullopt;

  // All of the source is in slots: nobody reads it any more.
  bool SourceRead() const {
    return claim_chunk >= end && moves_in_progress == 0;
  }

  // Chunks that were enqueued: all of them, or fewer once a driver call has
  // failed half-way.
  uint32_t end = 0;
  uint32_t permitted = 0;  // chunks the stream may copy
  uint32_t drained = 0;  // device to host: chunks that are in the host's memory
  // Pieces of chunks are handed to movers in order; `moved` counts what has
  // arrived, for the chunk that is in that slot now.
  uint32_t claim_chunk = 0;
  size_t claim_offset = 0;
  std::vector<size_t> moved;
  uint32_t moves_in_progress = 0;
  uint64_t slot_wait_nanos = 0;

  // All bytes have arrived and the slots are free again.
  bool retired = false;
  // It never will: its context is lost, or the driver refused to end it. Its
  // slots stay in quarantine.
  bool lost = false;

  Sequence ChunkSequence(uint32_t chunk) const { return first + 1 + chunk; }
  Sequence LastSequence() const { return first + chunks; }
  // Of the packed bytes.
  uint64_t ChunkOffset(uint32_t chunk) const { return cut.Offset(chunk); }
  size_t ChunkBytes(uint32_t chunk) const {
    const uint64_t next = chunk + 1 < chunks ? cut.Offset(chunk + 1) : bytes;
    return static_cast<size_t>(next - cut.Offset(chunk));
  }
  std::byte* HostAt(uint64_t offset) const {
    return host + shape.At(offset, shape.host);
  }
  const Slot& ChunkSlot(uint32_t chunk) const {
    return slots[chunk % slots.size()];
  }
  // Hands out the next piece, of at most `most` bytes, of claim_chunk: returns
  // its length, and its offset in the chunk.
  size_t ClaimPiece(size_t most, size_t* offset) {
    const size_t chunk_bytes = ChunkBytes(claim_chunk);
    const size_t piece = std::min(most, chunk_bytes - claim_offset);
    *offset = claim_offset;
    ++moves_in_progress;
    claim_offset += piece;
    if (claim_offset == chunk_bytes) {
      claim_offset = 0;
      ++claim_chunk;
    }
    return piece;
  }
  // Raises `drained` past the chunks that have arrived; true when all have.
  bool RaiseDrained(FlagLine& flags) {
    while (drained < end) {
      size_t& arrived = Moved(drained);
      if (arrived != ChunkBytes(drained)) return false;
      arrived = 0;
      flags.drained.store(ChunkSequence(drained), std::memory_order_release);
      ++drained;
    }
    return true;
  }
  // What of the chunk has arrived, while it is the last one in its slot.
  size_t& Moved(uint32_t chunk) { return moved[chunk % moved.size()]; }
  size_t Moved(uint32_t chunk) const { return moved[chunk % moved.size()]; }
};

}  // namespace pinring

#endif  // PINRING_SRC_ENGINE_TRANSFER_H_
