"""Where engines of this machine find the KV store of their instance."""

from pathlib import Path

from inferplane_operator.render import names


def store_values(run_root: Path) -> dict[str, str]:
    """Return where engines find the store."""
    return {
        names.KV_SOCKET: str(run_root / "kv.sock"),
        names.KV_SECRET: str(run_root / "kv-secret"),
        names.KV_PATH: str(run_root / "kv-path"),
    }
