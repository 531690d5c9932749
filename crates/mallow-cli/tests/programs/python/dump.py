"""Writes what a running CPython keeps of its frames as data for the assembler: 3.14.S and the like,
which interpreter.c is linked with. Run by the interpreter itself, as a file at /srv/app.py:

    python3.14 -IS /srv/app.py >3.14.S

Nothing here reads the interpreter's description of itself: where an object lies, says id(), and a
word that is the address of something dumped becomes a reference to it. Others stay as they were.
"""
import ctypes
import sys
import types

WORD = 8
FRAME_SIZE = 12 * WORD # at least what is in front of the locals
DESCRIPTION_SIZE = 128 * WORD
HEAD = object.__basicsize__


def word(address):
    return ctypes.c_uint64.from_address(address).value


def place_of(frame):
    """Where the interpreter keeps it."""
    return word(id(frame) + HEAD + WORD)


def frames_of(frame):
    """Name, address and code of each frame from this one on. The frames of C among them have none."""
    found, address = [], place_of(frame)
    while address:
        code = frame.f_code if frame and address == place_of(frame) else None
        found.append((f"{'frame' if code else 'entry'}_{len(found)}", address, code))
        frame = frame.f_back if code else frame
        address = word(address + WORD)
    return found


def objects_of(frames):
    """Name, address and size of everything that is dumped."""
    objects = [(name, address, FRAME_SIZE) for name, address, _ in frames]
    for name, _, code in frames:
        if code:
            number = name.split("_")[1]
            parts = {"code": code, "file": code.co_filename, "name": code.co_qualname,
                     "lines": code.co_linetable}
            objects += [(f"{part}_{number}", id(item), item.__sizeof__()) for part, item in parts.items()]
    return objects


def dump(frame):
    get = ctypes.pythonapi.PyThreadState_Get
    get.restype = ctypes.c_void_p
    objects = objects_of(frames_of(frame))
    runtime = ctypes.addressof(ctypes.c_char.in_dll(ctypes.pythonapi, "_PyRuntime"))
    objects = [("_PyRuntime", runtime, DESCRIPTION_SIZE), ("thread_state", get(), 16 * WORD)] + objects
    # Before 3.13 the thread state has the place on the stack of C that has the frame.
    objects += [("place", word(get() + 7 * WORD), WORD)] if sys.version_info < (3, 13) else []
    # This frame stands for the one that is dumped.
    named = [("PyCode_Type", id(types.CodeType), 1), *objects[2:], ("frame_0", place_of(sys._getframe()), 1)]

    def text(value):
        for bits in (0, 1):
            for name, address, size in named:
                if name.startswith(("code", "PyCode")) or address == value - bits:
                    if address <= value - bits < address + size:
                        distance = value - address
                        return f"{name} + {distance}" if distance else name
        return f"{value:#x}"

    print(f"/* CPython {sys.version.split()[0]}, by dump.py. */\n    .data\n    .globl Py_Version")
    print(f"Py_Version:\n    .quad {sys.hexversion:#x}")
    for name, address, size in objects:
        bytes = (ctypes.c_char * (size + -size % WORD)).from_address(address).raw
        words = [int.from_bytes(bytes[at:at + WORD], sys.byteorder) for at in range(0, len(bytes), WORD)]
        print(f"    .globl {name}\n    .balign 16\n{name}:")
        for at in range(0, len(words), 4):
            print("    .quad " + ", ".join(text(value) for value in words[at:at + 4]))
    print('    .section .note.GNU-stack, "", %progbits')


def naïve_λ(n):
    dump(
        sys._getframe())
    return n


class Box:
    def by_key(self, n):
        return naïve_λ(
            n)


def main():
    return sorted(
        [1],
        key=Box().by_key)


main()
