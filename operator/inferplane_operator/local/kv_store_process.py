"""The KV store of a local instance: one process for all workers, there before them and gone after them.

Its memory is a file in /dev/shm, so that engines that are restarted, and a store that is restarted itself, find their
blocks; it goes with the instance.  What lies on disk stays.  The secret stays too: blocks on disk are sealed with it.
"""

import hashlib
import json
import os
import secrets
import sys
from pathlib import Path
from typing import Any

import inferplane_kv_connector
from inferplane_operator.local.blueprint import LocalStore
from inferplane_operator.local.child import Child
from inferplane_operator.local.kv_places import store_values
from inferplane_operator.local.processes import Command
from inferplane_operator.local.statedir import StateDir, replace_file
from inferplane_operator.local.status import KVStoreStatus
from inferplane_operator.local.worker import Surroundings
from inferplane_operator.render import names

NAME = "kv-store"
_GRACE_S = 10.0
_SHARED_MEMORY = Path("/dev/shm")  # noqa: S108 - memory is wanted; the name in it is ours alone
_CONNECTOR = Path(str(inferplane_kv_connector.__file__)).parent


class KvStoreProcess:
    """Supervised like a worker's children."""

    def __init__(self, state: StateDir, around: Surroundings, store: LocalStore) -> None:
        self.store = store
        self.ending = False
        self._state = state
        self._around = around
        mark = hashlib.sha256(os.fsencode(state.root)).hexdigest()[:12]
        self._arena = _SHARED_MEMORY / f"inferplane-{os.getuid()}-{mark}"
        self._slabs = f"inferplane-{mark}.kv"
        self.child = Child(
            NAME,
            self._command,
            spawn=around.spawn,
            policy=around.policy,
            clock=around.clock,
            rng=around.rng,
            on_change=around.on_change,
        )

    async def run(self) -> None:
        await self.child.run()
        self._arena.unlink(missing_ok=True)

    def status(self) -> KVStoreStatus:
        return KVStoreStatus(name=self.store.name, process=self.child.status())

    async def stop(self) -> None:
        self.ending = True
        await self.child.stop(grace_s=_GRACE_S)

    def kill(self) -> None:
        self.child.kill()

    def _command(self) -> Command:
        places = store_values(self._around.run_root)
        _link(Path(places[names.KV_SECRET]), _secret(self._state.kv_secret))
        path = Path(places[names.KV_PATH])
        path.mkdir(mode=0o700, exist_ok=True)
        _link(path / _CONNECTOR.name, _CONNECTOR)
        replace_file(self._state.kv_config, json.dumps(self._placed(places), indent=2) + "\n")
        argv = (sys.executable, "-m", "inferplane_kvstore", "--config", str(self._state.kv_config))
        return Command(NAME, argv, self._around.environment, self._around.log_of(NAME))

    def _placed(self, places: dict[str, str]) -> dict[str, Any]:
        config: dict[str, Any] = dict(self.store.config)
        config |= {"socket": places[names.KV_SOCKET], "secretFile": places[names.KV_SECRET]}
        config["dram"] = {**config["dram"], "path": str(self._arena)}
        if "ssd" in config:
            config["ssd"] = {**config["ssd"], "path": str(Path(config["ssd"]["path"]) / self._slabs)}
        return config


def _secret(path: Path) -> Path:
    if not path.exists():
        replace_file(path, secrets.token_hex(32) + "\n")
    return path


def _link(place: Path, target: Path) -> None:
    place.unlink(missing_ok=True)
    place.symlink_to(target)
