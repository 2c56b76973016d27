"""The addresses that a router got, for whoever let it choose its ports."""

import json
from dataclasses import asdict, dataclass

from inferplane_router.config import Listen


@dataclass(frozen=True, slots=True)
class Ports:
    """Where a router listens; 0 where it does not."""

    http: int
    grpc: int
    metrics: int
    ext_proc: int = 0

    def shown(self) -> dict[str, int]:
        return asdict(self)


def write_report(listen: Listen, ports: Ports) -> None:
    """Write the file that `listen.report` names, so that whoever waits for it sees a whole one."""
    path = listen.report
    if path is None:
        return
    wanted = {name: port for name, port in ports.shown().items() if getattr(listen, name) is not None}
    addresses = {name: f"{getattr(listen, name).rpartition(':')[0]}:{port}" for name, port in wanted.items()}
    part = path.with_name(path.name + ".part")
    part.write_text(json.dumps(addresses) + "\n", "utf-8")
    part.replace(path)
