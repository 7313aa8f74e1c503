#!/usr/bin/env python3
"""imports.py WHEEL: the extension of a wheel for Windows or macOS asks for libraries of the system alone, and exports
PyInit__core.

Reads the tables of PE and Mach-O files, as the system's loader does.
"""
import struct
import sys
import zipfile

SYSTEM = {"KERNEL32.dll", "ADVAPI32.dll", "msvcrt.dll", "python3.dll", "/usr/lib/libSystem.B.dylib"}


def text(data, at):
    return data[at:data.index(b"\0", at)].decode()


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
    return libraries, exported


def macho(data):
    libraries, exported, at = [], [], 32
    for _ in range(struct.unpack_from("<I", data, 16)[0]):
        command, size = struct.unpack_from("<II", data, at)
        if command == 0xC:  # LC_LOAD_DYLIB
            libraries.append(text(data, at + struct.unpack_from("<I", data, at + 8)[0]))
        if command == 0x2:  # LC_SYMTAB: an external symbol that is in a section
            symbols, count, strings = struct.unpack_from("<III", data, at + 8)
            for i in range(count):
                name, kind = struct.unpack_from("<IB", data, symbols + 16 * i)
                if kind == 0xF:
                    exported.append(text(data, strings + name).removeprefix("_"))
        at += size
    return libraries, exported


def main():
    with zipfile.ZipFile(sys.argv[1]) as wheel:
        names = [name for name in wheel.namelist() if name.startswith("fovea/_core.")]
        path = next(name for name in names if name.endswith((".so", ".pyd")))
        data = wheel.read(path)
    libraries, exported = pe(data) if data[:2] == b"MZ" else macho(data)
    print(path, "asks for", *libraries, "and exports", *exported)
    if not libraries or set(libraries) - SYSTEM or exported != ["PyInit__core"]:
        sys.exit(f"{path}: only {', '.join(sorted(SYSTEM))} are in every system, and only PyInit__core is for others")


if __name__ == "__main__":
    main()
