// Opaque handles of the driver API. A handle whose object is gone comes back
// for the next one, as natively, so that a program which takes a handle for an
// identity is found out.

#ifndef PINRING_SRC_SIMCUDA_HANDLES_H_
#define PINRING_SRC_SIMCUDA_HANDLES_H_

#include <deque>
#include <unordered_map>
#include <utility>
#include <vector>

namespace pinring::simcuda {

template <typename Handle, typename Value>
class HandleTable {
 public:
  Handle Add(Value value) {
    if (free_.empty()) free_.push_back(&slots_.emplace_back());
    Slot* slot = free_.back();
    free_.pop_back();
    const Handle handle = reinterpret_cast<Handle>(slot);
    live_.emplace(handle, std::move(value));
    return handle;
  }
  // Null for what is no live handle.
  Value* Find(Handle handle) {
    auto it = live_.find(handle);
    return it == live_.end() ? nullptr : &it->second;
  }
  bool Remove(Handle handle) {
    if (live_.erase(handle) == 0) return false;
    free_.push_back(reinterpret_cast<Slot*>(handle));
    return true;
  }
  // All of them, in no order.
  auto begin() const { return live_.begin(); }
  auto end() const { return live_.end(); }

 private:
  struct Slot {
    char unused[64];  // handles are addresses; this keeps them apart
  };

  std::deque<Slot> slots_;
  std::vector<Slot*> free_;
  std::unordered_map<Handle, Value> live_;
};

}  // namespace pinring::simcuda

#endif  // PINRING_SRC_SIMCUDA_HANDLES_H_
