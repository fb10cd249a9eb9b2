"""Stores give back what they were given, and free it with the tensor."""

import weakref
from pathlib import Path

import pytest
import torch

from core.streambp.store import DeviceStore, DiskStore, HostStore, Queue

CPU = torch.device("cpu")
VALUES = [
    torch.randn(3, 4, 5),
    torch.randn(4, 3, dtype=torch.float64).T,
    torch.randn(7).bfloat16(),
    torch.arange(6),
    torch.empty(0, 3),
    torch.tensor(2.5),
]


@pytest.mark.parametrize(
    "make", [lambda _: DeviceStore(), lambda _: HostStore(CPU), lambda p: DiskStore(p, CPU)]
)
def test_every_tensor_comes_back_bit_for_bit(make, tmp_path):
    store = make(tmp_path)
    kept = [store.put(x) for x in VALUES]
    for got, want in zip(store.fetch(kept)(), VALUES, strict=True):
        assert got.dtype == want.dtype
        assert torch.equal(got, want)


def test_a_kept_file_has_no_name_and_its_memory_is_mapped(tmp_path):
    store, x = DiskStore(tmp_path, CPU), torch.randn(1 << 16)
    kept = store.put(x)
    assert list(tmp_path.iterdir()) == []
    maps = Path("/proc/self/maps")
    assert any(str(tmp_path) in x and "(deleted)" in x for x in maps.read_text().splitlines())
    del kept
    assert str(tmp_path) not in maps.read_text()


def test_files_of_many_tensors_leave_no_descriptor_open(tmp_path):
    store = DiskStore(tmp_path, CPU)
    before = len(list(Path("/proc/self/fd").iterdir()))
    kept = [store.put(torch.ones(10)) for _ in range(50)]
    assert len(list(Path("/proc/self/fd").iterdir())) == before
    assert all(torch.equal(x, torch.ones(10)) for x in kept)


def test_a_queue_tells_what_came_before_and_keeps_nothing_alive():
    class Call:
        pass

    queue, first, second = Queue(), Call(), Call()
    assert queue.after(first) is None
    assert queue.after(second)() is first
    gone = weakref.ref(second)
    del second
    assert gone() is None
