"""The kernel's count of processes that it ended for want of memory, wherever it is kept."""

import pytest

from worker.host_memory import oom_kills


@pytest.fixture
def root(tmp_path):
    def write(path, text):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
        return tmp_path

    return write


def test_a_host_that_tells_nothing_counts_none(tmp_path):
    assert oom_kills(tmp_path) == 0


def test_the_whole_host_counts(root):
    assert oom_kills(root("proc/vmstat", "nr_free_pages 9\noom_kill 3\n")) == 3


@pytest.mark.parametrize(
    ("group", "file"),
    [
        ("0::/jobs/1\n", "sys/fs/cgroup/jobs/1/memory.events"),
        ("0::/\n", "sys/fs/cgroup/memory.events"),
        ("7:cpu,memory:/jobs\n", "sys/fs/cgroup/memory/jobs/memory.oom_control"),
        ("7:memory:/\n", "sys/fs/cgroup/memory/memory.oom_control"),
    ],
)
def test_the_control_group_counts_in_both_versions(root, group, file):
    root("proc/self/cgroup", f"1:cpu:/other\n{group}")
    assert oom_kills(root(file, "oom 9\noom_kill 2\noom_kill_disable 0\noom_group_kill 7\n")) == 2
