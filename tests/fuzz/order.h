// What is ordered before what in a program, so that a decoder makes none whose
// bytes depend on the schedule: clocks of streams, with CUDA's rules for the
// legacy stream, and what surely stands behind a closed gate.

#ifndef PINRING_TESTS_FUZZ_ORDER_H_
#define PINRING_TESTS_FUZZ_ORDER_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "tests/fuzz/operation.h"

namespace pinring::fuzz {

// A stream, for good: one that is made again has another.
using StreamId = int;
inline constexpr int kMostStreamIds = 24;

struct Access {
  Object object = {};
  size_t begin = 0;
  size_t end = 0;
  bool write = false;
  // At any time from the call on, and not only when the stream gets there.
  bool early = false;
  // By a host function, which freeing the memory does not wait for.
  bool host_function = false;
};

// What has happened before, and which gates stand before it.
struct Point {
  std::array<uint32_t, kMostStreamIds> clock = {};
  uint32_t gates = 0;

  void Join(const Point& other);
};

class OrderModel {
 public:
  static constexpr StreamId kNone = -1;

  // kNone when there have been too many.
  StreamId AddStream(bool legacy, bool blocking);
  void EndStream(StreamId stream) { streams_[Index(stream)].live = false; }
  bool Live(StreamId stream) const { return streams_[Index(stream)].live; }

  // Where an operation that is enqueued now would stand.
  Point Next(StreamId stream) const;
  // The stream of an access that conflicts with `access` and need not be over
  // when an operation of `point` begins; kNone if there is none.
  StreamId Conflict(const Point& point, const Access& access) const;
  // The same of what the host does now. What stands behind a closed gate comes
  // after it, but for `strict`.
  StreamId HostConflict(const Access& access, bool strict) const;

  // A stream with a host function that accesses the object; kNone if all are
  // over.
  StreamId HostFunctionUses(const Object& object) const;

  // Enqueues an operation at `point`, with what it accesses.
  void Enqueue(StreamId stream, Point point,
               const std::vector<Access>& accesses);
  // The early read of the object by the stream's last operation is over.
  void EndEarly(const Object& object, StreamId stream);
  // The stream waits for an event: for what was recorded, and no more; whether
  // that is a barrier in the legacy stream is not relied upon.
  void WaitForEvent(StreamId stream, const Point& recorded) {
    streams_[Index(stream)].tail.Join(recorded);
  }
  void Close(StreamId stream, int gate);
  void HostWaitsFor(const Point& point);
  void HostWaitsForAll();
  const Point& Tail(StreamId stream) const {
    return streams_[Index(stream)].tail;
  }
  // From now on the gates may be open.
  void Allow(uint32_t gates) { closed_ &= ~gates; }
  uint32_t closed() const { return closed_; }
  bool Held(const Point& point) const { return (point.gates & closed_) != 0; }
  // The object's memory is given back: what accessed it is over.
  void Forget(const Object& object);

 private:
  struct Stream {
    bool legacy = false;
    bool blocking = false;
    bool live = true;
    Point tail;
  };
  struct Pending {
    Access access;
    StreamId stream;
    uint32_t tick;
    uint32_t gates;
  };

  static size_t Index(StreamId stream) { return static_cast<size_t>(stream); }
  void Prune();

  std::vector<Stream> streams_;
  std::vector<Pending> pending_;
  Point host_;
  uint32_t closed_ = 0;
};

}  // namespace pinring::fuzz

#endif  // PINRING_TESTS_FUZZ_ORDER_H_
