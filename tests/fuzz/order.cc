#include "tests/fuzz/order.h"

#include <algorithm>

namespace pinring::fuzz {
namespace {

bool Conflicting(const Access& a, const Access& b) {
  return a.object == b.object && (a.write || b.write) && a.begin < b.end &&
         b.begin < a.end;
}

}  // namespace

void Point::Join(const Point& other) {
  for (size_t i = 0; i < clock.size(); ++i) {
    clock[i] = std::max(clock[i], other.clock[i]);
  }
  gates |= other.gates;
}

StreamId OrderModel::AddStream(bool legacy, bool blocking) {
  if (streams_.size() == kMostStreamIds) return kNone;
  streams_.push_back({legacy, blocking, true, {}});
  return static_cast<StreamId>(streams_.size()) - 1;
}

Point OrderModel::Next(StreamId stream) const {
  const Stream& self = streams_[Index(stream)];
  Point point = self.tail;
  point.Join(host_);
  for (const Stream& other : streams_) {
    const bool implicit =
        (self.legacy && other.blocking) || (self.blocking && other.legacy);
    if (implicit) point.Join(other.tail);
  }
  return point;
}

StreamId OrderModel::Conflict(const Point& point, const Access& access) const {
  for (const Pending& pending : pending_) {
    if (!Conflicting(pending.access, access)) continue;
    if (point.clock[Index(pending.stream)] < pending.tick) {
      return pending.stream;
    }
  }
  return kNone;
}

StreamId OrderModel::HostConflict(const Access& access, bool strict) const {
  for (const Pending& pending : pending_) {
    if (!Conflicting(pending.access, access)) continue;
    if (host_.clock[Index(pending.stream)] >= pending.tick) continue;
    const bool later =
        !strict && !pending.access.early && (pending.gates & closed_) != 0;
    if (!later) return pending.stream;
  }
  return kNone;
}

StreamId OrderModel::HostFunctionUses(const Object& object) const {
  for (const Pending& pending : pending_) {
    if (pending.access.object == object && pending.access.host_function &&
        host_.clock[Index(pending.stream)] < pending.tick) {
      return pending.stream;
    }
  }
  return kNone;
}

void OrderModel::Enqueue(StreamId stream, Point point,
                         const std::vector<Access>& accesses) {
  const uint32_t tick = ++point.clock[Index(stream)];
  streams_[Index(stream)].tail = point;
  for (const Access& access : accesses) {
    pending_.push_back({access, stream, tick, point.gates});
  }
}

void OrderModel::EndEarly(const Object& object, StreamId stream) {
  std::erase_if(pending_, [&](const Pending& pending) {
    return pending.access.object == object && pending.access.early &&
           pending.stream == stream &&
           pending.tick == Tail(stream).clock[Index(stream)];
  });
}

void OrderModel::Close(StreamId stream, int gate) {
  const uint32_t bit = uint32_t{1} << gate;
  Point point = Next(stream);
  point.gates |= bit;
  closed_ |= bit;
  Enqueue(stream, point, {});
}

void OrderModel::HostWaitsFor(const Point& point) {
  host_.Join(point);
  Prune();
}

void OrderModel::HostWaitsForAll() {
  for (const Stream& stream : streams_) host_.Join(stream.tail);
  Prune();
}

void OrderModel::Forget(const Object& object) {
  std::erase_if(pending_, [&](const Pending& pending) {
    return pending.access.object == object;
  });
}

void OrderModel::Prune() {
  std::erase_if(pending_, [&](const Pending& pending) {
    return host_.clock[Index(pending.stream)] >= pending.tick;
  });
  // What is behind the host is behind no gate.
  host_.gates = 0;
}

}  // namespace pinring::fuzz
