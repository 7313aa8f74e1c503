#!/usr/bin/env python3
"""Runs an x86-64 Linux program on a CPU with AVX-512, VNNI and bfloat16 that Bochs emulates, about 50 times slower.

    tests/bochs.py build/release/tests/fovea-check --isa avx512 -k 'softmax_*'

Bochs' CPU core comes from PyPI (bochscpu-python, by cmake/setup.sh --emulators into build/venv/bochs) and is called by
its C interface. Exit status: the program's; after an undefined instruction 132, after a page fault 139, which are
described; 77 where Bochs is missing.

The program lies in one arena, which this process, the emulated CPU and its RAM see at the same addresses. So the host
runs system calls as they are, except those that concern memory, threads, signals or the FS register. All runs in ring
0: SYSCALL comes to on_syscall(), then to the stub at LSTAR, which empties the TLB and returns. Pages are protected as
the program asks, so guard pages work. Threads take turns where they wait. No signal is delivered, and AMX is missing.
"""
import ctypes
import errno
import glob
import importlib.util
import mmap
import os
import struct
import subprocess
import sys
import tempfile
from ctypes import c_char_p, c_int, c_int64, c_long, c_uint8, c_uint16, c_uint32, c_uint64, c_void_p

BASE, SIZE, PAGE = 0x10_0000_0000, 0x2_0000_0000, 4096  # the arena; BASE is a multiple of 1 GiB
PAGES = SIZE // PAGE
TABLES = BASE  # PML4, PDPT, page directories, then the entries of all pages
DIRECTORIES, ENTRIES = TABLES + 2 * PAGE, TABLES + 2 * PAGE + PAGES // 512 * 8
STUB = ENTRIES + PAGES * 8
HEAP, HEAP_SIZE = STUB + PAGE, 1 << 30  # what brk() gives
MAPPED = HEAP + HEAP_SIZE  # what mmap() gives, upwards
STACK_SIZE = 8 << 20
MAP_FIXED, MAP_NORESERVE, MAP_FIXED_NOREPLACE = 0x10, 0x4000, 0x100000
ON_SYSCALL = 17  # what far_branch is told
SAPPHIRE_RAPIDS = 30  # in bochscpu's list cpu.model
VENV = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "build/venv/bochs/bin/python")
SAME_NAMES = [("__isoc23_strtoull", "strtoull"), ("__isoc23_sscanf", "__isoc99_sscanf")]
UNUSED_HOOKS = ["before_execution", "after_execution", "lin_access", "phy_access", "cnear_branch_taken",
                "cnear_branch_not_taken", "ucnear_branch", "repeat_iteration", "opcode", "prefetch_hint", "tlb_cntrl"]
# The wide string functions of glibc are its slowest ones here.
PLAIN_STRINGS = "glibc.cpu.hwcaps=-AVX512F,-AVX512VL,-AVX512BW,-AVX2,-ERMS,-FSRM"

libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = c_long
libc.mprotect.argtypes = [c_uint64, c_uint64, c_int]
libc.mmap.restype, libc.mmap.argtypes = c_int64, [c_int64, c_uint64, c_int, c_int, c_int, c_int64]


def load_bochs():
    """The library, after one with the names that glibc before 2.38 lacks, and empty hooks, twice as fast as its own."""
    found = importlib.util.find_spec("bochscpu")
    if not found:
        if os.path.exists(VENV) and sys.executable != VENV:
            os.execv(VENV, [VENV, *sys.argv])
        print("SKIPPED: bochscpu-python is not installed")
        sys.exit(77)
    path = glob.glob(found.submodule_search_locations[0] + "/_bochscpu.*.so")[0]
    code = ".section .note.GNU-stack\n.text\n"
    if not hasattr(libc, "__isoc23_strtoull"):
        code += "".join(f".globl {a}\n{a}: jmp {b}@PLT\n" for a, b in SAME_NAMES)
    code += "".join(f".globl bx_instr_{name}\nbx_instr_{name}:\n" for name in UNUSED_HOOKS) + "ret\n"
    with tempfile.TemporaryDirectory() as folder:
        shim = os.path.join(folder, "shim.so")
        subprocess.run(["cc", "-shared", "-x", "assembler", "-", "-o", shim], input=code.encode(), check=True)
        ctypes.CDLL(shim, ctypes.RTLD_GLOBAL)
    bochs = ctypes.CDLL(path)
    repair(bochs)
    return bochs


def repair(bochs):
    """Two mistakes of Bochs (its sources of 2026-08 have them, too). Where they cannot be found, bfloat16 may fail."""
    convert, dot = (ctypes.cast(getattr(bochs, f"_ZN8BX_CPU_C{name}REP15bxInstruction_c"), c_void_p).value
                    for name in ("30VCVTNE2PS2BF16_MASK_VphHpsWps", "25VDPBF16PS_MASK_VpsHdqWdq"))
    # VCVTNE2PS2BF16 reads its first source 64 bytes too far, from the address in r15: lea 0x10(%rsp), %r15.
    at = ctypes.string_at(convert, 512).find(bytes.fromhex("4c8d7c2410"))
    if at >= 0 and libc.mprotect(convert & -PAGE, 2 * PAGE, 7) == 0:
        c_uint8.from_address(convert + at + 4).value = 0x10 - 64 & 255
    # VDPBF16PS multiplies a displacement of 8 bits by 4, not 64. A row of the table: two handlers, kinds of 4 operands.
    table = ctypes.addressof(c_uint8.in_dll(bochs, "BxOpcodesTable"))
    rows = ctypes.string_at(table, 24 * 3600)
    rows_of = [rows.find(struct.pack("<Q", handler)) for handler in (convert, dot)]
    if min(rows_of) >= 0:
        c_uint8.from_address(table + rows_of[1] + 10).value = rows[rows_of[0] + 10]


class Segment(ctypes.Structure):
    _fields_ = [("present", ctypes.c_bool), ("selector", c_uint16), ("base", c_uint64), ("limit", c_uint32),
                ("attr", c_uint16)]


class Table(ctypes.Structure):
    _fields_ = [("base", c_uint64), ("limit", c_uint16)]


REGISTERS = "rax rcx rdx rbx rsp rbp rsi rdi r8 r9 r10 r11 r12 r13 r14 r15 rip rflags".split()


class State(ctypes.Structure):
    """bochscpu_cpu_state_t, to its end or further."""

    _fields_ = [("seed", c_uint64)] + [(r, c_uint64) for r in REGISTERS]
    _fields_ += [(s, Segment) for s in "es cs ss ds fs gs ldtr tr".split()] + [("gdtr", Table), ("idtr", Table)]
    _fields_ += [("cr0", c_uint32), ("cr2", c_uint64), ("cr3", c_uint64), ("cr4", c_uint32), ("cr8", c_uint64)]
    _fields_ += [(r, c_uint64) for r in "dr0 dr1 dr2 dr3".split()] + [("dr6", c_uint32), ("dr7", c_uint32)]
    _fields_ += [("xcr0", c_uint32), ("zmm", c_uint64 * 8 * 32)]
    _fields_ += [(r, c_uint16) for r in "fpcw fpsw fptw fpop".split()] + [("fpst", c_uint64 * 2 * 8)]
    _fields_ += [("mxcsr", c_uint32), ("mxcsr_mask", c_uint32), ("tsc", c_uint64), ("efer", c_uint32)]
    _fields_ += [(r, c_uint64) for r in "kernel_gs_base apic_base pat sysenter_cs sysenter_eip sysenter_esp star lstar "
                 "cstar sfmask tsc_aux".split()]
    _fields_ += [("later", c_uint64 * 64)]


class Hooks(ctypes.Structure):
    """bochscpu_hooks_t: NULL for what is not hooked."""

    _fields_ = [(h, c_void_p) for h in (
        "context reset hlt mwait branch_taken branch_not_taken near_branch far_branch opcode interrupt exception "
        "hw_interrupt tlb cache prefetch clflush before after repeat inp inp2 outp linear physical wrmsr "
        "vmexit").split()]


class Thread:
    """One that does not run now has its registers in state, of which rax gets the result of its system call."""

    def __init__(self, number, ended_at=0):
        self.number, self.ended_at = number, ended_at  # ended_at: the word to be cleared when it ends
        self.state, self.result, self.awaited, self.timed = None, 0, None, False


class Machine:
    def __init__(self):
        self.bochs = bochs = load_bochs()
        kind = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE
        if libc.mmap(BASE, SIZE, 3, kind, -1, 0) != BASE:
            sys.exit("bochs.py: the arena's address is taken")
        for name in ("bochscpu_cpu_new", "sim_get_param_enum"):
            getattr(bochs, name).restype = c_void_p
        bochs.sim_get_param_enum.argtypes = [c_char_p, c_void_p]
        set_param = bochs._ZN14bx_param_num_c3setEl
        set_param.argtypes = [c_void_p, c_int64]
        self.page_callback = ctypes.CFUNCTYPE(None, c_uint64)(self.on_missing_page)
        bochs.bochscpu_mem_page_insert.argtypes = [c_uint64, c_uint64]
        bochs.bochscpu_mem_missing_page(self.page_callback)
        set_param(bochs.sim_get_param_enum(b"cpu.model", None), SAPPHIRE_RAPIDS)
        self.cpu = c_void_p(bochs.bochscpu_cpu_new(0))
        self.get, self.set = {}, {}
        for r in REGISTERS:
            self.get[r] = getattr(bochs, "bochscpu_cpu_" + r)
            self.get[r].restype = c_uint64
            self.set[r] = getattr(bochs, "bochscpu_cpu_set_" + r)
            self.set[r].argtypes = [c_void_p, c_uint64]
        self.entries = (c_uint64 * PAGES).from_address(ENTRIES)
        self.brk, self.top, self.freed, self.files = HEAP, MAPPED, {}, []
        self.own_calls = {9: self.map, 10: self.protect, 11: self.unmap, 12: self.set_break, 158: self.set_fs}
        self.own_calls[231] = lambda status, *_: os._exit(status & 255)  # exit_group
        # rt_sigaction, rt_sigprocmask, sigaltstack, set_robust_list; mremap, fork, vfork, rseq, clone3
        self.own_calls |= dict.fromkeys((13, 14, 131, 273), lambda *_: 0)
        self.own_calls |= dict.fromkeys((25, 57, 58, 334, 435), lambda *_: -errno.ENOSYS)
        self.thread = Thread(os.getpid())
        self.ready, self.waiting, self.threads = [], [], 1  # those that do not run; how many there ever were
        self.own_calls |= {24: self.give_way, 56: self.clone, 60: self.end_thread, 202: self.futex}
        self.own_calls |= dict.fromkeys((186, 218), lambda *_: self.thread.number)  # gettid, set_tid_address
        self.make_tables()

    def make_tables(self):
        c_uint64.from_address(TABLES).value = (TABLES + PAGE) | 3
        first = BASE >> 30
        for i in range(SIZE >> 30):
            c_uint64.from_address(TABLES + PAGE + (first + i) * 8).value = (DIRECTORIES + i * PAGE) | 3
        for i in range(PAGES // 512):
            c_uint64.from_address(DIRECTORIES + i * 8).value = (ENTRIES + i * PAGE) | 3
        self.protect(TABLES, STUB + PAGE - TABLES, 3)
        stub = bytes.fromhex("41 0f 20 db 41 0f 22 db ff e1")  # mov r11, cr3; mov cr3, r11; jmp rcx
        ctypes.memmove(STUB, stub, len(stub))

    def protect(self, address, size, protection, *_):
        """Sets the entries of these pages: PROT_READ is 1, PROT_WRITE 2, PROT_EXEC 4."""
        flags = 0 if protection & 7 == 0 else 3 if protection & 2 else 1
        for i in range((address - BASE) // PAGE, -((BASE - address - size) // PAGE)):
            self.entries[i] = (BASE + i * PAGE) | flags if flags else 0
        return 0

    def on_missing_page(self, address):
        self.bochs.bochscpu_mem_page_insert(address & -PAGE, address & -PAGE)

    def map(self, address, size, protection, flags, file, offset):
        """mmap(): at the address only with MAP_FIXED; all maps are private."""
        size = -(-size // PAGE) * PAGE
        if not flags & MAP_FIXED:
            freed = self.freed.get(size)
            address = freed.pop() if freed else self.top
            self.top = max(self.top, address + size)
        if address < BASE or address + size > BASE + SIZE:
            return -errno.ENOMEM
        kind = (flags & mmap.MAP_ANONYMOUS) | mmap.MAP_PRIVATE | MAP_FIXED
        if libc.mmap(address, size, 3, kind, file, offset) != address:
            return -ctypes.get_errno()
        self.protect(address, size, protection)
        return address

    def unmap(self, address, size, *_):
        size = -(-size // PAGE) * PAGE
        self.protect(address, size, 0)
        self.freed.setdefault(size, []).append(address)
        return 0

    def set_break(self, address, *_):
        if HEAP <= address <= MAPPED:
            self.protect(self.brk, max(0, address - self.brk), 3)
            self.brk = max(self.brk, address)
            return address
        return self.brk

    def set_fs(self, code, address, *_):
        if code != 0x1002:  # ARCH_SET_FS
            return -errno.EINVAL
        fs = Segment(True, 0, address, 0xFFFFFFFF, 0xC093)
        self.bochs.bochscpu_cpu_set_fs(self.cpu, ctypes.byref(fs))
        return 0

    def clone(self, flags, stack, number_at, ended_at, fs, *_):
        if not flags & 0x100:  # CLONE_VM: a thread
            return -errno.ENOSYS
        thread = Thread(self.thread.number + self.threads, ended_at if flags & 0x200000 else 0)  # CLONE_CHILD_CLEARTID
        thread.state = self.state()
        thread.state.rsp, thread.state.fs.base = stack, fs
        if flags & 0x100000:  # CLONE_PARENT_SETTID
            c_uint32.from_address(number_at).value = thread.number
        self.threads += 1
        self.ready.append(thread)
        return thread.number

    def futex(self, address, operation, value, timeout, *_):
        value &= (1 << 32) - 1
        if operation & 127 in (1, 10):  # FUTEX_WAKE, FUTEX_WAKE_BITSET
            woken = [t for t in self.waiting if t.awaited == address][:value]
            self.waiting = [t for t in self.waiting if t not in woken]
            self.ready += woken
            return len(woken)
        if operation & 127 not in (0, 9):  # FUTEX_WAIT, FUTEX_WAIT_BITSET
            return -errno.ENOSYS
        if c_uint32.from_address(address).value != value:
            return -errno.EAGAIN
        self.thread.result, self.thread.awaited, self.thread.timed = 0, address, timeout != 0
        return self.switch(self.waiting)

    def give_way(self, *_):
        self.thread.result = 0
        return self.switch(self.ready)

    def end_thread(self, status, *_):
        if not self.ready and not self.waiting:
            os._exit(status & 255)
        if self.thread.ended_at:
            c_uint32.from_address(self.thread.ended_at).value = 0
            self.futex(self.thread.ended_at, 1, 1, 0)
        return self.switch([])

    def switch(self, queue):
        """Puts this thread into the queue and continues another, whose result it returns. Else threads run on."""
        queue.append(self.thread)
        self.thread.state = self.state()
        if not self.ready:  # time passes
            self.ready = [t for t in self.waiting if t.timed][:1]
            if not self.ready:
                print("FAILED: all threads wait for each other", flush=True)
                os._exit(139)
            self.waiting.remove(self.ready[0])
            self.ready[0].result = -errno.ETIMEDOUT
        self.thread = self.ready.pop(0)
        self.bochs.bochscpu_cpu_set_state_no_flush(self.cpu, ctypes.byref(self.thread.state))
        return self.thread.result

    def on_syscall(self, _context, _cpu, what, *_from_to):
        if what != ON_SYSCALL:
            return
        number, *a = (self.get[r](self.cpu) for r in ("rax", "rdi", "rsi", "rdx", "r10", "r8", "r9"))
        if number in self.own_calls:
            result = self.own_calls[number](*a)
        else:
            result = libc.syscall(c_long(number), *[c_uint64(x) for x in a])
            if result == -1:
                result = -ctypes.get_errno()
        self.set["rax"](self.cpu, result & (1 << 64) - 1)

    def on_exception(self, _context, _cpu, vector, _error):
        state = self.state()
        name = {6: "undefined instruction", 13: "protection fault", 14: f"page fault of {state.cr2:#x}"}
        what, at = name.get(vector, f"exception {vector}"), hex(state.rip)
        for path, start, end in self.files:
            if start <= state.rip < end:
                at = f"{path} + {state.rip - start:#x}"
        print(f"FAILED: {what} at {at}", flush=True)
        os._exit(132 if vector == 6 else 139)

    def state(self):
        state = State()
        self.bochs.bochscpu_cpu_state(self.cpu, ctypes.byref(state))
        return state

    def load(self, path):
        """Maps an ELF file; returns its base, entry, program headers' address and number, and interpreter."""
        with open(path, "rb") as file:
            header = file.read(64)
            kind, machine = struct.unpack_from("<HH", header, 16)
            if header[:5] != b"\x7fELF\2" or machine != 62 or kind != 3:
                sys.exit(f"bochs.py: {path} is no position-independent program for x86-64")
            entry, at = struct.unpack_from("<QQ", header, 24)
            count = struct.unpack_from("<H", header, 56)[0]
            file.seek(at)
            headers = [struct.unpack("<IIQQQQQQ", file.read(56)) for _ in range(count)]
            loads = [h for h in headers if h[0] == 1]
            span = loads[-1][3] + loads[-1][6]
            base = self.map(0, span, 0, mmap.MAP_ANONYMOUS, -1, 0)
            interpreter = None
            for kind, flags, offset, address, _, in_file, in_memory, _ in headers:
                if kind == 3:
                    file.seek(offset)
                    interpreter = file.read(in_file - 1).decode()
                if kind != 1:
                    continue
                start = base + address - address % PAGE
                self.protect(start, in_memory + address % PAGE, 3 if flags & 2 else 1)
                file.seek(offset)
                data = file.read(in_file)
                ctypes.memmove(base + address, data, in_file)
        self.files.append((path, base, base + span))
        return base, base + entry, base + at, count, interpreter

    def prepare_stack(self, arguments, auxiliary):
        """The stack as a program finds it: argc, argv, the environment, the auxiliary vector."""
        top = self.map(0, STACK_SIZE, 3, mmap.MAP_ANONYMOUS, -1, 0) + STACK_SIZE - 64

        def push(data):
            nonlocal top
            top -= len(data)
            ctypes.memmove(top, data, len(data))
            return top

        strings = [push(os.fsencode(a) + b"\0") for a in arguments]
        environment = {"GLIBC_TUNABLES": PLAIN_STRINGS, "OMP_NUM_THREADS": "1"} | dict(os.environ)
        variables = [push(os.fsencode(f"{k}={v}") + b"\0") for k, v in environment.items()]
        auxiliary += [(25, push(os.urandom(16))), (0, 0)]  # AT_RANDOM, AT_NULL
        words = [len(strings), *strings, 0, *variables, 0, *(x for pair in auxiliary for x in pair)]
        top = (top - 8 * len(words)) & -16
        ctypes.memmove(top, struct.pack(f"<{len(words)}Q", *words), 8 * len(words))
        return top

    def run(self, arguments):
        base, entry, headers, count, interpreter = self.load(arguments[0])
        start, loader = entry, 0
        if interpreter:
            loader, start, *_ = self.load(interpreter)
        # AT_PHDR, AT_PHENT, AT_PHNUM, AT_PAGESZ, AT_BASE, AT_ENTRY, AT_UID to AT_EGID, AT_SECURE, AT_CLKTCK
        auxiliary = [(3, headers), (4, 56), (5, count), (6, PAGE), (7, loader), (9, entry)]
        auxiliary += [(i, 0) for i in (11, 12, 13, 14, 23)] + [(17, 100)]
        state = self.state()
        state.rip, state.rsp, state.rflags = start, self.prepare_stack(arguments, auxiliary), 0x202
        state.cs = Segment(True, 8, 0, 0xFFFFFFFF, 0xA09B)
        for name in ("ss", "ds", "es", "fs", "gs"):
            setattr(state, name, Segment(True, 16, 0, 0xFFFFFFFF, 0xC093))
        state.cr0, state.cr3 = 0x80010033, TABLES  # PG, WP, NE, ET, MP, PE
        state.cr4 = 0x506A0  # OSXSAVE, FSGSBASE, OSXMMEXCPT, OSFXSR, PGE, PAE
        state.efer, state.xcr0 = 0x501, 0xE7  # LMA, LME, SCE; x87, SSE, AVX, AVX-512
        state.star, state.lstar, state.sfmask = 8 << 32, STUB, 0
        state.fpcw, state.fptw, state.mxcsr = 0x37F, 0xFFFF, 0x1F80
        self.bochs.bochscpu_cpu_set_state(self.cpu, ctypes.byref(state))
        on_branch = ctypes.CFUNCTYPE(None, c_void_p, c_uint32, c_uint32, c_uint16, c_uint64, c_uint16, c_uint64)
        on_exception = ctypes.CFUNCTYPE(None, c_void_p, c_uint32, c_uint32, c_uint32)
        callbacks = on_branch(self.on_syscall), on_exception(self.on_exception)
        branch, exception = (ctypes.cast(c, c_void_p) for c in callbacks)
        hooks = Hooks(far_branch=branch, exception=exception)
        self.bochs.bochscpu_cpu_run(self.cpu, (c_void_p * 2)(ctypes.addressof(hooks), None))
        sys.exit("bochs.py: the CPU stopped")


if __name__ == "__main__":
    if len(sys.argv) < 2 or sys.argv[1].startswith("-"):
        sys.exit("usage: tests/bochs.py PROGRAM [ARGUMENT]...")
    Machine().run(sys.argv[1:])
