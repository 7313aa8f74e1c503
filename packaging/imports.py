#!/usr/bin/env python3
"""imports.py WHEEL: the binaries of a wheel for Windows or macOS ask for libraries of the system alone, and the
extension exports PyInit__core alone.

On macOS also: each is for the CPU and for the oldest system of the wheel's tag, takes nothing but Python's functions from
whoever has them, and is signed where that is for an Arm CPU, which starts nothing unsigned. The signature is the linker's
(ad hoc): hashes of pages, which are compared. Reads the tables of PE and Mach-O files, as the system's loader does.
"""
import hashlib
import re
import struct
import sys
import zipfile

SYSTEM = {"KERNEL32.dll", "ADVAPI32.dll", "msvcrt.dll", "python3.dll", "/usr/lib/libSystem.B.dylib"}
EXPORTED = ["PyInit__core"]
CPUS = {0x1000007: "x86_64", 0x100000C: "arm64"}


def text(data, at):
    return data[at:data.index(b"\0", at)].decode()


def number(data, at):
    """An unsigned LEB128 at data[at], and where it ends."""
    value = shift = 0
    while data[at] & 0x80:
        value, shift, at = value | (data[at] & 0x7F) << shift, shift + 7, at + 1
    return value | data[at] << shift, at + 1


def pe(data):
    header = struct.unpack_from("<I", data, 60)[0]
    sections, optional = struct.unpack_from("<H", data, header + 6)[0], struct.unpack_from("<H", data, header + 20)[0]
    table = [struct.unpack_from("<IIII", data, header + 24 + optional + 40 * i + 8) for i in range(sections)]

    def place(address):
        return next(address - start + raw for size, start, _, raw in table if start <= address < start + size)

    exports, imports = (struct.unpack_from("<I", data, header + 24 + 112 + 8 * i)[0] for i in range(2))
    names, at = place(struct.unpack_from("<I", data, place(exports) + 32)[0]), place(imports)
    count = struct.unpack_from("<I", data, place(exports) + 24)[0]
    exported = [text(data, place(struct.unpack_from("<I", data, names + 4 * i)[0])) for i in range(count)]
    libraries = []
    while name := struct.unpack_from("<I", data, at + 12)[0]:
        libraries.append(text(data, place(name)))
        at += 20
    return libraries, exported, []


def trie(data, at, name=b""):
    """The names of a trie of exports, as dyld finds them."""
    size, children = number(data, at)
    found = [name.decode()] if size else []
    at = children + size
    count, at = data[at], at + 1
    for _ in range(count):
        end = data.index(b"\0", at)
        child, after = number(data, end + 1)
        found += trie(data, child, name + data[at:end])
        at = after
    return found


def signature(data, at):
    """Complaints about the code's signature."""
    magic, _, count = struct.unpack_from(">III", data, at)
    offsets = [struct.unpack_from(">II", data, at + 12 + 8 * i) for i in range(count)]
    directory = at + dict(offsets)[0]
    hashes, slots, limit = (struct.unpack_from(">I", data, directory + place)[0] for place in (16, 28, 32))
    size, kind, _, page = data[directory + 36:directory + 40]
    if magic != 0xFADE0CC0 or (size, kind) != (32, 2) or limit != at:
        return ["the signature is not of SHA-256, or not of all that is before it"]
    step = 1 << page
    wrong = [i for i in range(slots) if hashlib.sha256(data[i * step:min(i * step + step, limit)]).digest() !=
             data[directory + hashes + 32 * i:directory + hashes + 32 * i + 32]]
    return [f"{len(wrong)} pages differ from their signature"] if wrong or slots != -(-limit // step) else []


def macho(data, tag):
    libraries, exported, wrong, oldest, signed, at = [], set(), [], None, False, 32
    cpu, commands = CPUS[struct.unpack_from("<I", data, 4)[0]], struct.unpack_from("<I", data, 16)[0]
    for _ in range(commands):
        command, size = struct.unpack_from("<II", data, at)
        fields = struct.unpack_from(f"<{size // 4 - 2}I", data, at + 8)
        if command in (0xC, 0x80000018, 0x8000001F):  # LC_LOAD_DYLIB, _WEAK_DYLIB, _REEXPORT_DYLIB
            libraries.append(text(data, at + fields[0]))
        elif command == 0x2:  # LC_SYMTAB
            symbols, count, strings, _ = fields
            for i in range(count):
                start, kind, _, where = struct.unpack_from("<IBBH", data, symbols + 16 * i)
                name = text(data, strings + start)
                if kind == 0xF:  # external, in a section
                    exported.add(name)
                elif kind == 1 and where >> 8 == 0xFE and not re.match("__?Py", name):  # undefined, of any library
                    wrong.append(f"asks whoever is there for {name}")
        elif command == 0x80000022:  # LC_DYLD_INFO_ONLY
            exported.update(trie(data[fields[8]:fields[8] + fields[9]], 0) if fields[9] else [])
        elif command == 0x80000033:  # LC_DYLD_EXPORTS_TRIE
            exported.update(trie(data[fields[0]:fields[0] + fields[1]], 0) if fields[1] else [])
        elif command in (0x24, 0x32):  # LC_VERSION_MIN_MACOSX, LC_BUILD_VERSION
            version = fields[command == 0x32]
            oldest = f"{version >> 16}_{version >> 8 & 0xFF}"
        elif command == 0x1D:  # LC_CODE_SIGNATURE
            signed = True
            wrong += signature(data, fields[0])
        at += size
    if tag != f"macosx_{oldest}_{cpu}":
        wrong.append(f"is for macosx_{oldest}_{cpu}, the wheel for {tag}")
    if cpu == "arm64" and not signed:
        wrong.append("is not signed")
    return libraries, sorted(name.removeprefix("_") for name in exported), wrong


def main():
    tag, failed, extensions = sys.argv[1].removesuffix(".whl").rsplit("-", 1)[1], False, 0
    with zipfile.ZipFile(sys.argv[1]) as wheel:
        files = {name: wheel.read(name) for name in wheel.namelist()}
    for path, data in files.items():
        if data[:2] != b"MZ" and data[:4] != b"\xcf\xfa\xed\xfe":
            continue
        libraries, exported, wrong = pe(data) if data[:2] == b"MZ" else macho(data, tag)
        extension = path.startswith("fovea/_core.")
        extensions += extension
        print(path, "asks for", *libraries, *(["and exports", *exported] if extension else []))
        if not libraries or set(libraries) - SYSTEM:
            wrong.append(f"asks for other libraries than {', '.join(sorted(SYSTEM))}")
        if extension and exported != EXPORTED:
            wrong.append("exports other names than PyInit__core")
        for sentence in wrong:
            print(f"{path}: {sentence}", file=sys.stderr)
            failed = True
    if failed or extensions != 1:
        sys.exit(f"{sys.argv[1]}: {extensions} extension, and what is said above")


if __name__ == "__main__":
    main()
