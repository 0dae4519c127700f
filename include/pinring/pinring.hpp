// pinring for C++17: staged memory that owns itself, containers that live in
// it, category scopes, instances, and copies of any pageable memory.
//
// Header-only over the C functions of pinring.h, whose banner says what staged
// memory is, when copies happen and which thread may call what. Uses the
// standard library alone.
//
//   pinring::Buffer<float> weights;
//   if (pinring::Result r = weights.Allocate(count); !r) return r.code();
//   Fill(weights.data(), weights.size());
//   if (pinring::Result r = pinring::CopyToDeviceAsync(
//           device, weights.data(), weights.bytes(), stream); !r) {
//     std::cerr << r.message() << '\n';
//   }
//
// Errors: calls that can fail return a Result, which the compiler does not let
// pass unseen. Nothing here throws but Allocator, as containers expect it to,
// and what the program's own types throw.
//
// Threads: as standard containers: one object, one thread at a time.

#ifndef PINRING_PINRING_HPP_
#define PINRING_PINRING_HPP_

#include <pinring/pinring.h>

#include <cstddef>
#include <limits>
#include <new>
#include <string>
#include <type_traits>
#include <utility>

namespace pinring {
inline namespace v0 {

// What became of a call: a code of the CUDA runtime and, where it is not
// cudaSuccess, the sentence that names the value and the remedy.
class [[nodiscard]] Result {
 public:
  Result() = default;
  // Of a C function that the calling thread has just called.
  explicit Result(cudaError_t code) : code_(code) {
    if (code != cudaSuccess) message_ = pinringGetLastErrorMessage();
  }

  bool ok() const noexcept { return code_ == cudaSuccess; }
  explicit operator bool() const noexcept { return ok(); }
  cudaError_t code() const noexcept { return code_; }
  const std::string& message() const noexcept { return message_; }

  // Says that a failure is of no account here.
  void Ignore() const noexcept {}

 private:
  cudaError_t code_ = cudaSuccess;
  std::string message_;
};

// --- Instances and categories ----------------------------------------------

// A pinring of its own: ring, options, limits and accounts (pinringInstance_t).
class Instance {
 public:
  Instance() = default;
  Instance(Instance&& other) noexcept
      : handle_(std::exchange(other.handle_, nullptr)) {}
  Instance& operator=(Instance&& other) noexcept {
    if (this != &other) {
      Destroy().Ignore();
      handle_ = std::exchange(other.handle_, nullptr);
    }
    return *this;
  }
  // Waits for the instance's copies. Its blocks must have been freed; where
  // they are not, the instance stays.
  ~Instance() { Destroy().Ignore(); }

  // Options as pinringConfigure takes them: "ring_bytes=128MiB, movers=4".
  // An instance made before is destroyed first.
  Result Create(const std::string& settings = {}) {
    if (Result destroyed = Destroy(); !destroyed) return destroyed;
    return Result(pinringInstanceCreate(&handle_, settings.c_str()));
  }
  Result Destroy() {
    if (handle_ == nullptr) return Result();
    Result result(pinringInstanceDestroy(handle_));
    if (result.ok()) handle_ = nullptr;
    return result;
  }

  // Null before Create: the default instance.
  pinringInstance_t handle() const noexcept { return handle_; }

 private:
  pinringInstance_t handle_ = nullptr;
};

// Makes an instance the calling thread's current one for the life of the
// scope. Where that fails nothing changes, and status() says why.
class [[nodiscard]] InstanceScope {
 public:
  explicit InstanceScope(const Instance& instance)
      : status_(pinringPushInstance(instance.handle())) {}
  InstanceScope(const InstanceScope&) = delete;
  InstanceScope& operator=(const InstanceScope&) = delete;
  ~InstanceScope() {
    if (status_.ok()) (void)pinringPopInstance();
  }

  const Result& status() const noexcept { return status_; }

 private:
  const Result status_;
};

// Names what the calling thread allocates in the life of the scope. Where the
// name is refused nothing changes, and status() says why.
class [[nodiscard]] CategoryScope {
 public:
  explicit CategoryScope(const char* name)
      : status_(pinringPushCategory(name)) {}
  explicit CategoryScope(const std::string& name)
      : CategoryScope(name.c_str()) {}
  CategoryScope(const CategoryScope&) = delete;
  CategoryScope& operator=(const CategoryScope&) = delete;
  ~CategoryScope() {
    if (status_.ok()) (void)pinringPopCategory();
  }

  const Result& status() const noexcept { return status_; }

 private:
  const Result status_;
};

// As pinringSetCategoryLimit; 0: no limit.
inline Result SetCategoryLimit(const char* name, std::uint64_t soft_bytes,
                               std::uint64_t hard_bytes) {
  return Result(pinringSetCategoryLimit(name, soft_bytes, hard_bytes));
}

// --- Memory ----------------------------------------------------------------

// Host memory from pinringHostAlloc for `size` values of T, freed with the
// object, which waits for copies that are queued or under way.
template <typename T>
class Buffer {
  static_assert(std::is_trivially_copyable_v<T>,
                "copies to and from a device move bytes");

 public:
  Buffer() = default;
  Buffer(Buffer&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)),
        size_(std::exchange(other.size_, 0)) {}
  Buffer& operator=(Buffer&& other) noexcept {
    if (this != &other) {
      Free().Ignore();
      data_ = std::exchange(other.data_, nullptr);
      size_ = std::exchange(other.size_, 0);
    }
    return *this;
  }
  ~Buffer() { Free().Ignore(); }

  // `size` values whose bytes are all zero, unless they come from the pool of
  // small blocks (64 KiB and less), which are as they were left. What the
  // buffer held before is freed; on error it holds nothing. `flags` are those
  // of cudaHostAlloc. Errors: as pinringHostAlloc, and cudaErrorInvalidValue
  // where the bytes cannot be counted.
  Result Allocate(std::size_t size, unsigned flags = cudaHostAllocDefault) {
    if (Result freed = Free(); !freed) return freed;
    if (size > std::numeric_limits<std::size_t>::max() / sizeof(T)) {
      // Let the library say it: no block has that many bytes.
      void* none = nullptr;
      return Result(pinringHostAlloc(
          &none, std::numeric_limits<std::size_t>::max(), flags));
    }
    void* block = nullptr;
    Result result(pinringHostAlloc(&block, size * sizeof(T), flags));
    if (result.ok() && block != nullptr) {
      data_ = static_cast<T*>(block);
      size_ = size;
    }
    return result;
  }

  // Gives the memory back now. Errors: as pinringFreeHost, after which the
  // buffer holds nothing all the same.
  Result Free() {
    if (data_ == nullptr) return Result();
    size_ = 0;
    return Result(pinringFreeHost(std::exchange(data_, nullptr)));
  }

  T* data() const noexcept { return data_; }
  std::size_t size() const noexcept { return size_; }
  std::size_t bytes() const noexcept { return size_ * sizeof(T); }
  bool empty() const noexcept { return size_ == 0; }
  T& operator[](std::size_t i) const noexcept { return data_[i]; }
  T* begin() const noexcept { return data_; }
  T* end() const noexcept { return data_ + size_; }

 private:
  T* data_ = nullptr;
  std::size_t size_ = 0;
};

// A standard allocator: std::vector<float, pinring::Allocator<float>> lives in
// a staged block. Throws std::bad_alloc. A container that grows frees its old
// block, which waits for copies of it.
template <typename T>
class Allocator {
  static_assert(alignof(T) <= 256, "small blocks are aligned to 256 bytes");

 public:
  using value_type = T;
  using is_always_equal = std::true_type;
  using propagate_on_container_move_assignment = std::true_type;

  Allocator() noexcept = default;
  template <typename U>
  Allocator(const Allocator<U>&) noexcept {}

  [[nodiscard]] T* allocate(std::size_t size) {
    if (size > std::numeric_limits<std::size_t>::max() / sizeof(T)) {
      throw std::bad_array_new_length();
    }
    // A container wants an address of its own also for nothing.
    const std::size_t bytes = size == 0 ? 1 : size * sizeof(T);
    void* block = nullptr;
    if (pinringMallocHost(&block, bytes) != cudaSuccess) {
      throw std::bad_alloc();
    }
    return static_cast<T*>(block);
  }
  void deallocate(T* block, std::size_t /*size*/) noexcept {
    (void)pinringFreeHost(block);
  }
};

template <typename T, typename U>
bool operator==(const Allocator<T>&, const Allocator<U>&) noexcept {
  return true;
}
template <typename T, typename U>
bool operator!=(const Allocator<T>&, const Allocator<U>&) noexcept {
  return false;
}

// --- Copies ----------------------------------------------------------------

// When a copy may access host memory (enum pinringAccess).
enum class Access {
  kStream = pinringAccessStream,
  kDuringCall = pinringAccessDuringCall,
  kAny = pinringAccessAny
};

// Copies `bytes` bytes through the ring, in the order of `stream`, from or to
// any pageable memory: a std::vector, a mapped file, a staged block. The
// asynchronous forms return at once, but as pinringCopyAsync says of `access`;
// the others when the data is at its destination. Errors: as pinringCopyAsync.
inline Result CopyToDeviceAsync(void* device, const void* host,
                                std::size_t bytes, cudaStream_t stream,
                                Access access = Access::kStream) {
  return Result(pinringCopyAsync(device, host, bytes, cudaMemcpyHostToDevice,
                                 static_cast<pinringAccess>(access), stream));
}
inline Result CopyToHostAsync(void* host, const void* device, std::size_t bytes,
                              cudaStream_t stream,
                              Access access = Access::kStream) {
  return Result(pinringCopyAsync(host, device, bytes, cudaMemcpyDeviceToHost,
                                 static_cast<pinringAccess>(access), stream));
}
inline Result CopyToDevice(void* device, const void* host, std::size_t bytes,
                           cudaStream_t stream = nullptr) {
  return Result(
      pinringCopy(device, host, bytes, cudaMemcpyHostToDevice, stream));
}
inline Result CopyToHost(void* host, const void* device, std::size_t bytes,
                         cudaStream_t stream = nullptr) {
  return Result(
      pinringCopy(host, device, bytes, cudaMemcpyDeviceToHost, stream));
}

}  // namespace v0
}  // namespace pinring

#endif  // PINRING_PINRING_HPP_
