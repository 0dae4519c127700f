#include "src/capi/instances.h"

#include <atomic>
#include <cstddef>

#include "absl/strings/str_cat.h"
#include "src/driver/status.h"

namespace pinring {
namespace {

// A place of the list. Places are never freed, only emptied and filled again,
// so that the list can be read without a lock.
struct Place {
  std::atomic<Instance*> instance{nullptr};
  Place* next = nullptr;  // Constant once the place is in the list.
};

std::atomic<Place*> places{nullptr};
std::atomic<int> further{0};

constinit thread_local Instance* pushed[kMaxPushedInstances] = {};
constinit thread_local int depth = 0;

Place* FindPlace(const Instance* instance) {
  for (Place* place = places.load(std::memory_order_acquire); place != nullptr;
       place = place->next) {
    if (place->instance.load(std::memory_order_acquire) == instance) {
      return place;
    }
  }
  return nullptr;
}

}  // namespace

AddressMap& Blocks() {
  static AddressMap* const map = new AddressMap;
  return *map;
}

Instance* OwnerOf(const void* address) {
  return HostMemory::InstanceOf(Blocks(), address);
}

void AddInstance(Instance* instance, InstanceRole role) {
  if (role == InstanceRole::kFurther) {
    further.fetch_add(1, std::memory_order_relaxed);
  }
  for (Place* place = places.load(std::memory_order_acquire); place != nullptr;
       place = place->next) {
    Instance* nobody = nullptr;
    if (place->instance.compare_exchange_strong(nobody, instance,
                                                std::memory_order_acq_rel)) {
      return;
    }
  }
  auto* place = new Place;
  place->instance.store(instance, std::memory_order_relaxed);
  place->next = places.load(std::memory_order_relaxed);
  // Release: who sees the place sees what is in it.
  while (!places.compare_exchange_weak(place->next, place,
                                       std::memory_order_acq_rel)) {
  }
}

bool RemoveInstance(const Instance* instance, InstanceRole role) {
  if (instance == nullptr) return false;
  Place* place = FindPlace(instance);
  auto* expected = const_cast<Instance*>(instance);
  if (place == nullptr || !place->instance.compare_exchange_strong(
                              expected, nullptr, std::memory_order_acq_rel)) {
    return false;
  }
  if (role == InstanceRole::kFurther) {
    further.fetch_sub(1, std::memory_order_relaxed);
  }
  return true;
}

bool InstanceExists(const Instance* instance) {
  return instance != nullptr && FindPlace(instance) != nullptr;
}

void ForEachInstance(absl::FunctionRef<void(Instance&)> visit) {
  for (Place* place = places.load(std::memory_order_acquire); place != nullptr;
       place = place->next) {
    if (Instance* instance = place->instance.load(std::memory_order_acquire)) {
      visit(*instance);
    }
  }
}

bool FurtherInstances() { return further.load(std::memory_order_relaxed) > 0; }

absl::Status PushInstance(Instance* instance) {
  if (depth == kMaxPushedInstances) {
    return CudaStatus(
        CUDA_ERROR_INVALID_VALUE,
        absl::StrCat("instances are pushed ", depth,
                     " deep on this thread, which is the most there can be"));
  }
  pushed[depth] = instance;
  ++depth;
  return absl::OkStatus();
}

absl::Status PopInstance() {
  if (depth == 0) {
    return CudaStatus(CUDA_ERROR_INVALID_VALUE,
                      "the calling thread has pushed no instance");
  }
  --depth;
  return absl::OkStatus();
}

Instance* PushedInstance() { return depth == 0 ? nullptr : pushed[depth - 1]; }

}  // namespace pinring
