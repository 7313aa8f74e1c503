/* Macros by which a file of x86-64 assembly (.S) is assembled for ELF, Mach-O and Win64 alike, by gcc or clang:
 *   LOCAL(name)                   a label or symbol that no other file sees
 *   FUNCTION(name)                begins a function that only this library sees
 *   ARGUMENT                      the register of its first argument, a pointer
 *   SAVE(register)                in the prologue, one of rbx, rbp, r12 to r15, in its own words: SAVE(%rbx)
 *   SAVE_CALLEE, PROLOGUE_END     after these: what else the convention wants saved; ends the prologue
 *   RESTORE_CALLEE, RESTORE(...)  before ret, in reverse order
 *   END_FUNCTION(name), END_FILE
 * Between PROLOGUE_END and RESTORE_CALLEE all of rax to r15 but rsp, and all vector and mask registers, are free, where
 * all of rbx, rbp, r12 to r15 that are used were saved. A function ends with vzeroupper before RESTORE_CALLEE. */
#ifndef FV_ASSEMBLY_H
#define FV_ASSEMBLY_H

#define FV_JOINED(a, b) a##b
#define FV_JOIN(a, b) FV_JOINED(a, b)

#if defined(_WIN32)
#define LOCAL(name) FV_JOIN(.L, name)
#define ARGUMENT %rcx
#define FUNCTION(name) .text; .p2align 6; .globl name; .seh_proc name; name: endbr64
#define SAVE(register) push register; .seh_pushreg register
#define RESTORE(register) pop register
#define SAVE_CALLEE fv_save_callee
#define RESTORE_CALLEE fv_restore_callee
#define PROLOGUE_END .seh_endprologue
#define END_FUNCTION(name) .seh_endproc
#define END_FILE

/* rdi, rsi and xmm6 to xmm15, below what SAVE() saved. */
.macro fv_save_callee
    push %rdi
    .seh_pushreg %rdi
    push %rsi
    .seh_pushreg %rsi
    sub $168, %rsp
    .seh_stackalloc 168
    .irp n, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15
    vmovups %xmm\n, 16 * (\n - 6)(%rsp)
    .seh_savexmm %xmm\n, 16 * (\n - 6)
    .endr
.endm
.macro fv_restore_callee
    .irp n, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15
    vmovups 16 * (\n - 6)(%rsp), %xmm\n
    .endr
    add $168, %rsp
    pop %rsi
    pop %rdi
.endm

#else
#define ARGUMENT %rdi
#define SAVE(register) push register; .cfi_adjust_cfa_offset 8; .cfi_rel_offset register, 0
#define RESTORE(register) pop register; .cfi_adjust_cfa_offset -8; .cfi_restore register
#define SAVE_CALLEE
#define RESTORE_CALLEE
#define PROLOGUE_END

#if defined(__APPLE__)
#define LOCAL(name) FV_JOIN(L, name)
#define FUNCTION(name)                                                                                                 \
    .text; .p2align 6; .globl FV_JOIN(_, name); .private_extern FV_JOIN(_, name);                                      \
    FV_JOIN(_, name): .cfi_startproc; endbr64
#define END_FUNCTION(name) .cfi_endproc
#define END_FILE
#else
#define LOCAL(name) FV_JOIN(.L, name)
#define FUNCTION(name)                                                                                                 \
    .text; .p2align 6; .globl name; .hidden name; .type name, @function; name: .cfi_startproc; endbr64
#define END_FUNCTION(name) .cfi_endproc; .size name, . - name
#define END_FILE .section .note.GNU-stack, "", @progbits
#ifdef __CET__
#include <cet.h> /* marks the object as one whose indirect jumps end at endbr64, or are notrack */
#endif
#endif
#endif

#endif
