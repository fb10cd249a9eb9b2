"""Source that means harm does none: it is a runtime error, and the answers beside it are graded."""

from pathlib import Path

import pytest

import core
from core.graders.grade import Grading
from core.graders.inside.confine import Limits
from core.graders.sample import Sample
from core.spec.grader import parse_grader

pytestmark = pytest.mark.usefixtures("sandbox")

REPO = str(Path(core.__file__).parent.parent)
ATTACKS = {
    "fork_bomb": "import os\nwhile True: os.fork()",
    "thread_bomb": "import threading, time\n"
    "while True: threading.Thread(target=time.sleep, args=(99,)).start()",
    "start_a_program": "import subprocess, sys; subprocess.run([sys.executable, '-c', ''])",
    "open_a_socket": "import socket; socket.socket()",
    "read_shadow": "open('/etc/shadow').read()",
    "list_roots_home": "import os; assert not set(os.listdir('/root')) - {'.pyenv'}; open('/root/.bashrc')",
    "read_the_repository": f"open({REPO + '/pyproject.toml'!r}).read()",
    "read_another_process": "open('/proc/1/environ', 'rb').read()",
    "write_a_file": "open('/tmp/mine', 'w').write('x')",
    "write_into_the_room": "open('/house/core/graders/grade.py', 'a')",
    "make_shared_memory": "import os; os.memfd_create('x')",
    "allocate_50_gib": "b'x' * (50 * 2**30)",
    "print_1_gib": "for _ in range(1024): print('x' * 2**20)\nraise ValueError('printed')",
    "sleep_for_ever": "import time; time.sleep(10**6)",
    "spin_for_ever": "while True: pass",
    "exit_at_once": "import os; os._exit(0)",
    "close_every_stream": "import os\nfor fd in range(64):\n"
    "    try: os.close(fd)\n    except OSError: pass",
    "write_garbage_to_the_protocol": "import os\nfor fd in range(64):\n"
    "    try: os.write(fd, b'}garbage\\n{\\xff' * 100)\n    except OSError: pass\nos._exit(0)",
    "flood_the_protocol": "import os\nfor fd in range(64):\n"
    "    try:\n        while True: os.write(fd, b'x' * 2**16)\n    except OSError: pass",
    "nest_the_protocol": "import os\nfor fd in range(64):\n"
    "    try: os.write(fd, b'[' * 16000)\n    except OSError: pass\nos._exit(0)",
    "claim_infinity": "import os\nfor fd in range(64):\n"
    "    try: os.write(fd, b'{\"reward\": Infinity}')\n    except OSError: pass\nos._exit(0)",
    "huge_integer": "x = 9 ** 9 ** 9",
    "recursion": "import sys; sys.setrecursionlimit(10**9)\ndef f(): f()\nf()",
    "segfault": "import ctypes; ctypes.string_at(0)",
    "kill_everything": "import os; os.kill(-1, 9)",
    "kill_the_server": "import os; os.kill(os.getppid(), 9)",
    "become_root": "import os; os.setuid(0)",
    "leave_the_namespace": "import ctypes, os\n"
    "if ctypes.CDLL(None).unshare(0x10000000): raise PermissionError('unshare')",
    "raise_its_own_limits": "import resource; resource.setrlimit(resource.RLIMIT_AS, (-1, -1))",
}
GRADER = {
    "type": "python",
    "source": """
def grade(sample, item):
    exec(item["attack"], {})
    return 1.0
""",
}


@pytest.fixture(scope="module")
def grading():
    with Grading(parse_grader(GRADER), limits=Limits(2.0)) as grading:
        yield grading


@pytest.mark.parametrize("attack", ATTACKS)
def test_an_attack_is_an_error_of_its_own_answer_alone(grading, attack):
    grades = grading.grade_many(
        [(Sample(""), {"attack": ATTACKS[attack]}), (Sample(""), {"attack": ""})]
    )
    assert "python_grader_runtime_error" in grades[0].errors.flags(), grades[0]
    assert grades[0].reward == 0.0
    assert (grades[1].reward, grades[1].errors.flags()) == (1.0, [])


def test_an_attack_while_the_source_is_read_is_one_too(graded):
    source = "(" * 5000 + ")" * 5000
    grade = graded({"type": "python", "source": source})
    assert grade.errors.flags() == ["python_grader_runtime_error"]
