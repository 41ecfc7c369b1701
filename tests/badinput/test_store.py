"""A store shared by threads and forks, and the five troubles that it tells apart."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

import tilesim as ts


def test_threads_share_a_store(tmp_path):
    store, failures = ts.Store(tmp_path / "s"), []

    def work(number: int) -> None:
        try:
            for i in range(50):
                store.put({f"{number}.{i}": i})
                assert store.get([f"{number}.{i}"]) == {f"{number}.{i}": i}
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert len(store) == 400


def test_five_troubles_of_a_store(tmp_path, monkeypatch):
    def told(path: Path, action=lambda store: store.put({"a": 1})) -> str:
        with pytest.raises(ts.UserError) as caught:
            action(ts.Store(path))
        return str(caught.value)

    (tmp_path / "damaged").write_bytes(b"no database" * 100)
    assert "damaged, or not a store" in told(tmp_path / "damaged")

    import sqlite3

    newer = sqlite3.connect(tmp_path / "newer")
    newer.execute("PRAGMA user_version=99")
    newer.close()
    assert "newer version" in told(tmp_path / "newer")

    full = ts.Store(tmp_path / "full")
    full._connection.execute("PRAGMA max_page_count=8")
    with pytest.raises(ts.UserError, match="full or fails"):
        full.put({str(i): "x" * 1000 for i in range(200)})
    assert full.get(["1"]) == {}

    ts.Store(tmp_path / "locked").close()
    monkeypatch.setattr("tilesim.base.store.TIMEOUT_SECONDS", 0.1)
    other = sqlite3.connect(tmp_path / "locked")
    other.execute("BEGIN EXCLUSIVE")
    assert "in use" in told(tmp_path / "locked")
    other.close()

    store = ts.Store(tmp_path / "readonly")
    store._connection.execute("PRAGMA query_only=1")
    with pytest.raises(ts.UserError, match="cannot be written"):
        store.put({"a": 1})


@pytest.mark.filterwarnings("ignore:.*fork:RuntimeWarning")  # JAX's, where an earlier test has imported it
def test_a_store_after_a_fork(tmp_path):
    store = ts.Store(tmp_path / "s")
    store.put({"parent": 1})
    child = os.fork()
    if child == 0:
        code = 1
        try:
            store.put({"child": 2})
            code = 0 if store.get(["parent"]) == {"parent": 1} else 2
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert store.get(["parent", "child"]) == {"parent": 1, "child": 2}
