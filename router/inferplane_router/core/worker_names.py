"""What a worker is called: an agent's own name is unique in its namespace, a catalogue's everywhere.

In a cluster the catalogue says NAMESPACE/POD and the agent POD; on one machine both say the same.
"""


def is_called(worker_id: str, name: str) -> bool:
    """Say whether `name`, said by an agent of the same namespace, means the catalogue's `worker_id`."""
    return worker_id == name or worker_id.rpartition("/")[2] == name


def is_same_worker(worker_id: str, *, namespace: str, name: str) -> bool:
    """Say whether an agent that introduces itself so is the catalogue's `worker_id`; one without a name may be."""
    return not name or worker_id in (name, f"{namespace}/{name}")
