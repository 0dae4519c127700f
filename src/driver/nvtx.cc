#include "src/driver/nvtx.h"

#include "src/os/threads.h"

#if __has_include(<nvtx3/nvToolsExt.h>)
#include <nvtx3/nvToolsExt.h>

#include <array>
#include <cstddef>
#endif

namespace pinring::nvtx {

#if __has_include(<nvtx3/nvToolsExt.h>)

namespace {

constexpr std::array kNames = {"copy to device", "copy to host", "fill slot",
                               "drain slot", "fill host"};

class Domain {
 public:
  Domain() : handle_(nvtxDomainCreateA("pinring")) {
    if (handle_ == nullptr) return;  // no tool is attached
    for (size_t i = 0; i < kNames.size(); ++i) {
      names_[i] = nvtxDomainRegisterStringA(handle_, kNames[i]);
    }
  }

  [[nodiscard]] bool watched() const { return handle_ != nullptr; }
  void Push(Task task, uint64_t bytes) const {
    nvtxEventAttributes_t attributes = {};
    attributes.version = NVTX_VERSION;
    attributes.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
    attributes.messageType = NVTX_MESSAGE_TYPE_REGISTERED;
    attributes.message.registered = names_[static_cast<size_t>(task)];
    attributes.payloadType = NVTX_PAYLOAD_TYPE_UNSIGNED_INT64;
    attributes.payload.ullValue = bytes;
    // The level that it answers says nothing that anyone needs.
    (void)nvtxDomainRangePushEx(handle_, &attributes);
  }
  void Pop() const { (void)nvtxDomainRangePop(handle_); }

 private:
  nvtxDomainHandle_t handle_;
  std::array<nvtxStringHandle_t, kNames.size()> names_ = {};
};

// Never destroyed: movers may outlive static objects.
const Domain& Pinring() {
  static const Domain& domain = *new Domain();
  return domain;
}

}  // namespace

void Attach() { (void)Pinring(); }

Range::Range(Task task, uint64_t bytes) : pushed_(Pinring().watched()) {
  if (pushed_) Pinring().Push(task, bytes);
}
Range::~Range() {
  if (pushed_) Pinring().Pop();
}

void NameThread(const std::string& name) {
  if (!Pinring().watched()) return;
  nvtxNameOsThreadA(static_cast<uint32_t>(os::ThreadId()), name.c_str());
}

#else

void Attach() {}
Range::Range(Task, uint64_t) {}
Range::~Range() = default;
void NameThread(const std::string&) {}

#endif

}  // namespace pinring::nvtx
