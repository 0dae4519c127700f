// The instances of the process: which there are, which one a thread has made
// current, and the one map of all their blocks, by which a call finds the
// instance that it is about.
//
// Thread-safe. Nothing here takes a lock or allocates but for AddInstance, so
// that all of it works in a child of fork, during thread exit and during
// static destruction.

#ifndef PINRING_SRC_CAPI_INSTANCES_H_
#define PINRING_SRC_CAPI_INSTANCES_H_

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "src/capi/instance.h"
#include "src/host/address_map.h"

namespace pinring {

// The blocks of all instances. Lives as long as the process.
AddressMap& Blocks();

// The instance that handed out the block at `address`; null for memory that is
// no instance's.
Instance* OwnerOf(const void* address);

// Makes an instance known, until RemoveInstance, which answers false for one
// that is not.
enum class InstanceRole { kDefault, kFurther };
void AddInstance(Instance* instance, InstanceRole role);
bool RemoveInstance(const Instance* instance, InstanceRole role);
bool InstanceExists(const Instance* instance);
void ForEachInstance(absl::FunctionRef<void(Instance&)> visit);
// Whether there is any but the default one. Where there is not, nobody need ask
// whose a block is.
bool FurtherInstances();

// Makes an instance the calling thread's current one until the matching pop;
// null stands for the default instance. Errors: kInvalidArgument (too deep;
// nothing to pop).
inline constexpr int kMaxPushedInstances = 64;
absl::Status PushInstance(Instance* instance);
absl::Status PopInstance();
// The one that was pushed last; null where it is the default instance.
Instance* PushedInstance();

}  // namespace pinring

#endif  // PINRING_SRC_CAPI_INSTANCES_H_
