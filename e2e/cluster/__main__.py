"""`python -m e2e.cluster`: a cluster in the foreground, for looking at things by hand.

It says how to reach it and lasts until Ctrl-C.
"""

import contextlib
import signal
import sys
import time

from e2e.cluster.binaries import MissingError, build_missing, path_of
from e2e.cluster.one_node import OneNode
from e2e.cluster.packages import install_missing


def main() -> int:
    try:
        install_missing()
        build_missing()
    except MissingError as error:
        sys.stderr.write(f"error: {error}\n")
        return 1
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    began = time.monotonic()
    cluster = OneNode.start()
    with contextlib.closing(cluster), contextlib.suppress(KeyboardInterrupt):
        _tell(cluster, time.monotonic() - began)
        signal.pause()
    return 0


def _tell(cluster: OneNode, took_s: float) -> None:
    commands = path_of("kubectl").parent
    sys.stdout.write(
        f"ready after {took_s:.1f} s; in another terminal, as root:\n"
        f"  export KUBECONFIG={cluster.access.kubeconfig} PATH={commands}:$PATH\n"
        f"  nsenter --net=/proc/{cluster.enclosure.pid}/ns/net kubectl get nodes\n"
    )
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
