#include "tests/support/test_kernels.h"

#include <atomic>

namespace pinring {

const char kTestKernelsPtx[] = R"ptx(
.version 6.4
.target sm_70
.address_size 64

.visible .entry pinring_hold(.param .u64 flag, .param .u32 value)
{
	.reg .pred %done;
	.reg .b32 %now, %want, %past;
	.reg .b64 %at;
	ld.param.u64 %at, [flag];
	ld.param.u32 %want, [value];
again:
	ld.acquire.sys.u32 %now, [%at];
	sub.s32 %past, %now, %want;
	setp.ge.s32 %done, %past, 0;
	@!%done bra again;
	ret;
}

.visible .entry pinring_fill(.param .u64 dst, .param .u64 bytes, .param .u32 seed)
{
	.reg .pred %end;
	.reg .b32 %block, %threads, %thread, %blocks, %base, %i32, %high, %byte;
	.reg .b64 %to, %n, %i, %t64, %stride, %at;
	ld.param.u64 %to, [dst];
	ld.param.u64 %n, [bytes];
	ld.param.u32 %base, [seed];
	mul.lo.s32 %base, %base, 31;
	mov.u32 %block, %ctaid.x;
	mov.u32 %threads, %ntid.x;
	mov.u32 %thread, %tid.x;
	mov.u32 %blocks, %nctaid.x;
	mul.wide.u32 %i, %block, %threads;
	cvt.u64.u32 %t64, %thread;
	add.s64 %i, %i, %t64;
	mul.wide.u32 %stride, %blocks, %threads;
again:
	setp.ge.u64 %end, %i, %n;
	@%end bra done;
	cvt.u32.u64 %i32, %i;
	mad.lo.s32 %byte, %i32, 7, %base;
	shr.u32 %high, %i32, 8;
	mad.lo.s32 %byte, %high, 13, %byte;
	add.s64 %at, %to, %i;
	st.u8 [%at], %byte;
	add.s64 %i, %i, %stride;
	bra again;
done:
	ret;
}

.visible .entry pinring_add_one(.param .u64 counter)
{
	.reg .b32 %before;
	.reg .b64 %at;
	ld.param.u64 %at, [counter];
	atom.sys.add.u32 %before, [%at], 1;
	ret;
}
)ptx";

namespace {

template <typename T>
T Parameter(void** parameters, int index) {
  return *static_cast<T*>(parameters[index]);
}

}  // namespace

void RegisterTestKernels(simcuda::Machine& machine) {
  machine.RegisterKernel(
      kHoldKernel, {sizeof(uint32_t*), sizeof(uint32_t)},
      [](void** parameters) {
        auto* flag = Parameter<uint32_t*>(parameters, 0);
        const auto value = Parameter<uint32_t>(parameters, 1);
        // Pairs with the release store of whoever opens the gate.
        const uint32_t now =
            std::atomic_ref<uint32_t>(*flag).load(std::memory_order_acquire);
        return static_cast<int32_t>(now - value) >= 0;
      });
  machine.RegisterKernel(
      kFillKernel, {sizeof(uint8_t*), sizeof(uint64_t), sizeof(uint32_t)},
      [](void** parameters) {
        auto* dst = Parameter<uint8_t*>(parameters, 0);
        const auto bytes = Parameter<uint64_t>(parameters, 1);
        const auto seed = Parameter<uint32_t>(parameters, 2);
        for (uint64_t i = 0; i < bytes; ++i) dst[i] = FillByte(seed, i);
        return true;
      });
  machine.RegisterKernel(kAddOneKernel, {sizeof(uint32_t*)},
                         [](void** parameters) {
                           auto* counter = Parameter<uint32_t*>(parameters, 0);
                           std::atomic_ref<uint32_t>(*counter).fetch_add(
                               1, std::memory_order_acq_rel);
                           return true;
                         });
}

}  // namespace pinring
