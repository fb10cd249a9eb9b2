"""Whatever an artifact store's library raises is told in one way, and leaves nothing behind."""

import pytest
from sqlalchemy import func, select

from core.store.errors import ArtifactsDown, NotFound
from core.store.objects import open_blobs
from core.store.tables import BlobRow


@pytest.fixture
def root(tmp_path):
    return tmp_path / "objects"


@pytest.fixture
def objects(database, root):
    return open_blobs(database, f"file://{root}")


class Full:
    """An object of which the store takes the beginning, or all but the end."""

    def __init__(self, target, *, at):
        self._target = target
        self._at = at

    def write(self, piece):
        if self._at == "write":
            raise OSError(28, "No space left on device")
        return self._target.write(piece)

    def close(self):
        self._target.close()
        if self._at == "close":
            raise RuntimeError("SlowDown: reduce your request rate")


def rows(database) -> int:
    with database.begin() as session:
        return session.scalar(select(func.count()).select_from(BlobRow))


def test_a_store_that_is_not_there_takes_nothing(objects, root, database):
    root.write_text("where a folder should be")
    with pytest.raises(ArtifactsDown, match=r"cannot open .*objects"):
        objects.write([b"abc"])
    assert rows(database) == 0


@pytest.mark.parametrize(
    ("at", "said"), [("write", "No space left on device"), ("close", "SlowDown")]
)
def test_a_store_that_refuses_in_the_middle_keeps_nothing(
    objects, root, database, monkeypatch, at, said
):
    made = objects._files.open
    monkeypatch.setattr(objects._files, "open", lambda *how: Full(made(*how), at=at))
    with pytest.raises(ArtifactsDown, match=said):
        objects.write([b"abc"])
    assert rows(database) == 0
    assert list(root.iterdir()) == []


def test_an_object_that_is_gone_or_cut_is_the_store_s_trouble(objects, root):
    blob = objects.write([b"abcdef"])
    (path,) = root.iterdir()
    path.write_bytes(b"abc")
    with pytest.raises(ArtifactsDown, match="ends 3 bytes early"):
        list(objects.read(blob.id))
    path.unlink()
    with pytest.raises(ArtifactsDown, match="cannot read"):
        list(objects.read(blob.id))


def test_an_unknown_blob_is_no_trouble_of_the_store(objects):
    with pytest.raises(NotFound):
        list(objects.read("blob_none"))


def test_what_the_source_raises_is_let_through(objects, root):
    def source():
        yield b"a"
        raise FileNotFoundError("the checkpoint was dropped")

    with pytest.raises(FileNotFoundError, match="dropped"):
        objects.write(source())
    assert list(root.iterdir()) == []
