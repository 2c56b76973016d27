"""A worker of many ranks costs as much as as many workers: none of its ranks touches the rows of the others."""

from unittest.mock import patch

from inferplane_router.core.fleet import Fleet
from inferplane_router.core.testing import FakeWorker, make_core


def test_an_identity_writes_each_ranks_speeds_once() -> None:
    worker = FakeWorker("w0")
    core = make_core(worker)
    worker.dp_size = 64
    write = Fleet.write_speeds
    with patch.object(Fleet, "write_speeds", autospec=True, side_effect=write) as written:
        core.on_worker_message("w0", worker.identity(), 1.0)

    assert [call.args[1] for call in written.call_args_list] == sorted(
        {call.args[1] for call in written.call_args_list}
    )
    assert written.call_count == worker.dp_size
