"""Stores give back what they were given, and free it with the tensor."""

import resource
import weakref
from pathlib import Path

import pytest
import torch

from core.streambp.errors import StoreError
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


def test_a_folder_that_is_gone_is_named_with_a_way_out(tmp_path):
    store = DiskStore(tmp_path / "gone", CPU)
    with pytest.raises(StoreError, match=r"gone'.*No such file.*store them elsewhere") as refused:
        store.put(torch.ones(10))
    assert refused.value.field == "folder"


def test_a_file_that_cannot_be_written_whole_is_refused_and_leaves_nothing(tmp_path):
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 12, before[1]))
    try:
        with pytest.raises(StoreError, match="File too large"):
            DiskStore(tmp_path, CPU).put(torch.ones(1 << 12))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert list(tmp_path.iterdir()) == []


def test_a_queue_tells_what_came_before_and_keeps_nothing_alive():
    class Call:
        pass

    queue, first, second = Queue(), Call(), Call()
    assert queue.after(first) is None
    assert queue.after(second)() is first
    gone = weakref.ref(second)
    del second
    assert gone() is None
