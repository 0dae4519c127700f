// dlsym, in front of the C library's.
//
// What dlsym answers for RTLD_NEXT and RTLD_DEFAULT depends on who calls it, by
// the return address. So it is entered without a frame, and left by a jump for
// every name but cu[A-Z]...; for RTLD_NEXT always, as the caller then wants
// what comes after itself, and for RTLD_DEFAULT where a driver is loaded: that
// finds the functions that this library exports.

#include <dlfcn.h>

#include <atomic>
#include <cstdlib>

#include "src/os/env.h"
#include "src/preload/entry_points.h"

extern "C" {

// The next one, the C library's as a rule, once it is known: the code below
// reads it.
__attribute__((visibility("hidden"))) std::atomic<void*>
    pinring_preload_real_dlsym{nullptr};

// Finds it. Called in the middle of dlsym.
__attribute__((visibility("hidden"))) void* pinring_preload_find_dlsym() {
  // Versions of glibc on the processors that this builds for.
  for (const char* const version :
       {"GLIBC_2.34", "GLIBC_2.17", "GLIBC_2.2.5"}) {
    if (void* const found = dlvsym(RTLD_NEXT, "dlsym", version)) {
      // A library between this one and the C library may wrap dlsym, too.
      using Dlsym = void* (*)(void*, const char*);
      void* const next = reinterpret_cast<Dlsym>(found)(RTLD_NEXT, "dlsym");
      void* const real = next == nullptr ? found : next;
      (void)dlerror();
      pinring_preload_real_dlsym.store(real, std::memory_order_release);
      return real;
    }
  }
  pinring::os::WriteErrorLine(
      "pinring: the C library has no dlsym that this library knows. Run the "
      "program without LD_PRELOAD");
  std::abort();
}

// dlsym of a name of the driver's. Zero says that the C library's is to be
// jumped to; else *answer is the answer.
__attribute__((visibility("hidden"))) int pinring_preload_dlsym(
    void* handle, const char* name, void** answer) {
  using pinring::preload::EntryPoints;
  using Dlsym = void* (*)(void*, const char*);
  if (handle == RTLD_NEXT) return 0;
  void* real = pinring_preload_real_dlsym.load(std::memory_order_acquire);
  if (real == nullptr) real = pinring_preload_find_dlsym();
  const auto call = reinterpret_cast<Dlsym>(real);
  if (handle == RTLD_DEFAULT) {
    if (EntryPoints::Stands(name)) return 0;
    // What the driver lacks is not to be found here either.
    *answer = call(RTLD_NEXT, name);
    return 1;
  }
  void* const found = call(handle, name);
  *answer = found == nullptr ? nullptr : EntryPoints::ForSymbol(name, found);
  return 1;
}

}  // extern "C"

#if defined(__x86_64__)

asm(R"(
    .text
    .globl dlsym
    .type dlsym, @function
    .p2align 4
dlsym:
    .cfi_startproc
    endbr64
    testq %rsi, %rsi
    je 1f
    cmpb $'c', (%rsi)
    jne 1f
    cmpb $'u', 1(%rsi)
    jne 1f
    movzbl 2(%rsi), %eax
    subl $'A', %eax
    cmpl $25, %eax
    jbe 2f
1:
    movq pinring_preload_real_dlsym(%rip), %rax
    testq %rax, %rax
    je 3f
    jmp *%rax
2:
    subq $40, %rsp
    .cfi_adjust_cfa_offset 40
    movq %rdi, 8(%rsp)
    movq %rsi, 16(%rsp)
    leaq 24(%rsp), %rdx
    call pinring_preload_dlsym
    movq 8(%rsp), %rdi
    movq 16(%rsp), %rsi
    movq 24(%rsp), %rdx
    addq $40, %rsp
    .cfi_adjust_cfa_offset -40
    testl %eax, %eax
    je 1b
    movq %rdx, %rax
    ret
3:
    subq $24, %rsp
    .cfi_adjust_cfa_offset 24
    movq %rdi, (%rsp)
    movq %rsi, 8(%rsp)
    call pinring_preload_find_dlsym
    movq (%rsp), %rdi
    movq 8(%rsp), %rsi
    addq $24, %rsp
    .cfi_adjust_cfa_offset -24
    jmp *%rax
    .cfi_endproc
    .size dlsym, .-dlsym
)");

#elif defined(__aarch64__)

asm(R"(
    .text
    .globl dlsym
    .type dlsym, %function
    .p2align 4
dlsym:
    .cfi_startproc
    hint #34
    cbz x1, 1f
    ldrb w2, [x1]
    cmp w2, #'c'
    b.ne 1f
    ldrb w2, [x1, #1]
    cmp w2, #'u'
    b.ne 1f
    ldrb w2, [x1, #2]
    sub w2, w2, #'A'
    cmp w2, #25
    b.ls 2f
1:
    adrp x16, pinring_preload_real_dlsym
    ldr x16, [x16, #:lo12:pinring_preload_real_dlsym]
    cbz x16, 3f
    br x16
2:
    stp x29, x30, [sp, #-48]!
    .cfi_adjust_cfa_offset 48
    .cfi_rel_offset x30, 8
    stp x0, x1, [sp, #16]
    add x2, sp, #32
    bl pinring_preload_dlsym
    mov w3, w0
    ldr x2, [sp, #32]
    ldp x0, x1, [sp, #16]
    ldp x29, x30, [sp], #48
    .cfi_adjust_cfa_offset -48
    .cfi_restore x30
    cbz w3, 1b
    mov x0, x2
    ret
3:
    stp x29, x30, [sp, #-32]!
    .cfi_adjust_cfa_offset 32
    .cfi_rel_offset x30, 8
    stp x0, x1, [sp, #16]
    bl pinring_preload_find_dlsym
    mov x16, x0
    ldp x0, x1, [sp, #16]
    ldp x29, x30, [sp], #32
    .cfi_adjust_cfa_offset -32
    .cfi_restore x30
    br x16
    .cfi_endproc
    .size dlsym, .-dlsym
)");

#else
#error "The preload library is for x86-64 and 64-bit ARM"
#endif
