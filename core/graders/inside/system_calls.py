"""What a grading may not ask of the kernel, as a filter program of seccomp (classic BPF).

Why, when there is a sandbox: limits on processes do not hold for root, and a grading shares its user with
the loop that serves it. So a grading starts no process and no thread, reaches no other process, opens no
socket, makes no shared memory, and opens nothing for writing; it computes, and reads what it may see.
Numbers are those of linux/arch/x86/entry/syscalls/syscall_64.tbl and include/uapi/asm-generic/unistd.h.
"""

import ctypes
import platform
import struct

EPERM, ENOSYS = 1, 38
WRITING = 0o1 | 0o2 | 0o100 | 0o1000 | 0o2000  # O_WRONLY, O_RDWR, O_CREAT, O_TRUNC, O_APPEND
ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
OTHER_ABI = 0x40000000  # x32's numbers begin here

# name: (x86_64, aarch64); None where the architecture has no such call
REFUSED: dict[str, tuple[int | None, int | None]] = {
    "clone": (56, 220),
    "fork": (57, None),
    "vfork": (58, None),
    "execve": (59, 221),
    "execveat": (322, 281),
    "kill": (62, 129),
    "tkill": (200, 130),
    "tgkill": (234, 131),
    "rt_sigqueueinfo": (129, 138),
    "rt_tgsigqueueinfo": (297, 240),
    "pidfd_open": (434, 434),
    "pidfd_send_signal": (424, 424),
    "pidfd_getfd": (438, 438),
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "prlimit64": (302, 261),
    "setrlimit": (160, 164),
    "setsid": (112, 157),
    "setpgid": (109, 154),
    "setpriority": (141, 140),
    "socket": (41, 198),
    "socketpair": (53, 199),
    "io_uring_setup": (425, 425),
    "bpf": (321, 280),
    "userfaultfd": (323, 282),
    "perf_event_open": (298, 241),
    "keyctl": (250, 219),
    "add_key": (248, 217),
    "request_key": (249, 218),
    "mount": (165, 40),
    "unshare": (272, 97),
    "setns": (308, 268),
    "chroot": (161, 51),
    "open_by_handle_at": (304, 265),
    "memfd_create": (319, 279),
    "shmget": (29, 194),
    "msgget": (68, 186),
    "semget": (64, 190),
    "mq_open": (240, 180),
    "creat": (85, None),
    "truncate": (76, 45),
    "mkdir": (83, None),
    "mkdirat": (258, 34),
    "mknod": (133, None),
    "mknodat": (259, 33),
    "rmdir": (84, None),
    "unlink": (87, None),
    "unlinkat": (263, 35),
    "rename": (82, None),
    "renameat": (264, 38),
    "renameat2": (316, 276),
    "link": (86, None),
    "linkat": (265, 37),
    "symlink": (88, None),
    "symlinkat": (266, 36),
    "chmod": (90, None),
    "fchmodat": (268, 53),
    "chown": (92, None),
    "lchown": (94, None),
    "fchownat": (260, 54),
    "utimensat": (280, 88),
    "setxattr": (188, 5),
}
# Answered as if the kernel had none, so that libc falls back to a call that is looked at.
UNKNOWN = {"clone3": (435, 435), "openat2": (437, 437), "fchmodat2": (452, 452)}
# name: (number on x86_64, number on aarch64, position of its flags)
OPENING = {"open": (2, None, 1), "openat": (257, 56, 2)}

LOAD, EQUAL, AT_LEAST, ANY_BIT, RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
ALLOW, ERRNO, KILL = 0x7FFF0000, 0x00050000, 0x80000000
NUMBER_AT, ARCHITECTURE_AT, ARGUMENTS_AT = 0, 4, 16

PR_SET_SECCOMP, PR_SET_NO_NEW_PRIVS, FILTER_MODE = 22, 38, 2


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_char_p))


def filter_program(machine: str = platform.machine()) -> bytes:
    """The filter for a machine, as the kernel reads it. Raises OSError where none is known."""
    if machine not in ARCHITECTURES:
        known = ", ".join(ARCHITECTURES)
        raise OSError(f"no filter of system calls is known for {machine}, only for {known}")
    column = list(ARCHITECTURES).index(machine)
    lines = [
        _line(LOAD, ARCHITECTURE_AT),
        _line(EQUAL, ARCHITECTURES[machine], 1, 0),
        _line(RETURN, KILL),
        _line(LOAD, NUMBER_AT),
        _line(AT_LEAST, OTHER_ABI, 0, 1),
        _line(RETURN, ERRNO | EPERM),
    ]
    for table, errno in ((REFUSED, EPERM), (UNKNOWN, ENOSYS)):
        for numbers in table.values():
            lines += _refused(numbers[column], errno)
    for opening in OPENING.values():
        lines += _refused_for_writing(opening[column], opening[2])
    return b"".join([*lines, _line(RETURN, ALLOW)])


def apply_filter(program: bytes) -> None:
    """Put this process under ``program``, for good. Raises OSError."""
    libc = ctypes.CDLL(None, use_errno=True)
    given = _Program(len(program) // 8, program)
    nothing = ctypes.c_ulong(0)
    calls = (
        (PR_SET_NO_NEW_PRIVS, ctypes.c_ulong(1), nothing),
        (PR_SET_SECCOMP, ctypes.c_ulong(FILTER_MODE), ctypes.byref(given)),
    )
    for option, first, second in calls:
        if libc.prctl(option, first, second, nothing, nothing) != 0:
            raise OSError(ctypes.get_errno(), "the kernel took no filter of system calls")


def _line(code: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    return struct.pack("=HBBI", code, if_true, if_false, value)


def _refused(number: int | None, errno: int) -> list[bytes]:
    if number is None:
        return []
    return [_line(EQUAL, number, 0, 1), _line(RETURN, ERRNO | errno)]


def _refused_for_writing(number: int | None, flags_position: int) -> list[bytes]:
    if number is None:
        return []
    return [
        _line(EQUAL, number, 0, 4),
        _line(LOAD, ARGUMENTS_AT + 8 * flags_position),
        _line(ANY_BIT, WRITING, 0, 1),
        _line(RETURN, ERRNO | EPERM),
        _line(LOAD, NUMBER_AT),
    ]
