"""The memory that is free is the least of what the host and every control group leave."""

import pytest
import torch

from core.streambp.plan.budget import free_bytes, host_free_bytes

MIB = 2**20
MEMINFO = f"MemTotal: 999999 kB\nMemFree: {100 * 1024} kB\nMemAvailable: {300 * 1024} kB\n"


@pytest.fixture
def host(tmp_path):
    """A root folder with 300 MiB available and this process in a control group."""

    def make(cgroup, **groups):
        files = {"proc/meminfo": MEMINFO, "proc/self/cgroup": cgroup, **groups}
        for name, text in files.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return tmp_path

    return make


def v2(folder, limit, used, droppable=0):
    stat = f"anon 5\ninactive_file {droppable}\n"
    names = ("memory.max", "memory.current", "memory.stat")
    texts = (f"{limit}\n", f"{used}\n", stat)
    return {f"sys/fs/cgroup{folder}/{n}": t for n, t in zip(names, texts, strict=True)}


def test_without_a_limit_it_is_what_the_kernel_says_is_available(host):
    assert host_free_bytes(host("0::/\n")) == 300 * MIB
    assert host_free_bytes(host("0::/a\n", **v2("/a", "max", 7))) == 300 * MIB


def test_a_limit_counts_without_caches_that_can_be_dropped(host):
    root = host("0::/a\n", **v2("/a", 100 * MIB, 60 * MIB, droppable=10 * MIB))
    assert host_free_bytes(root) == 50 * MIB


def test_the_limit_of_a_group_around_counts_too(host):
    around = v2("/a", 80 * MIB, 70 * MIB)
    assert host_free_bytes(host("0::/a/b\n", **around, **v2("/a/b", "max", 1))) == 10 * MIB


def test_a_group_beyond_its_limit_has_nothing_left(host):
    assert host_free_bytes(host("0::/\n", **v2("", MIB, 2 * MIB))) == 0


def test_in_a_container_the_path_of_the_host_is_not_there_but_the_limit_is(host):
    cgroup = "9:name=systemd:/x\n4:cpu,memory:/host/path\n"
    mount = "sys/fs/cgroup/memory/memory"
    limits = {
        f"{mount}.limit_in_bytes": str(40 * MIB),
        f"{mount}.usage_in_bytes": str(30 * MIB),
        f"{mount}.stat": f"cache 1\ntotal_inactive_file {5 * MIB}\n",
    }
    assert host_free_bytes(host(cgroup, **limits)) == 15 * MIB


def test_a_host_without_such_files_has_the_memory_that_it_has(tmp_path):
    assert host_free_bytes(tmp_path) >= free_bytes(torch.device("cpu")) > 0
