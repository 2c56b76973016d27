"""`python -m e2e.cluster [--image]`: a cluster in the foreground, for looking at things by hand.

It says how to reach it and lasts until Ctrl-C.  With an image its node has what the chart needs, and the tests may use
it again and again, as they use anybody's cluster.
"""

import argparse
import contextlib
import signal
import sys
import time

from e2e.cluster.binaries import MissingError, build_missing, path_of
from e2e.cluster.machine import lacks, told
from e2e.cluster.one_node import OneNode
from e2e.cluster.packages import NEEDED, NEEDED_FOR_IMAGES, install_missing
from e2e.images.built import e2e_image


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--image", action="store_true", help="build this checkout's image, and give it to the node")
    with_image = bool(parser.parse_args().image)
    if missing := lacks():
        sys.stderr.write(f"error: {told(missing)}\n")
        return 1
    try:
        install_missing({**NEEDED, **(NEEDED_FOR_IMAGES if with_image else {})})
        build_missing()
        image = e2e_image() if with_image else None  # before this process is in the cluster's network
    except MissingError as error:
        sys.stderr.write(f"error: {error}\n")
        return 1
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    began = time.monotonic()
    cluster = OneNode.start()
    with contextlib.closing(cluster), contextlib.suppress(KeyboardInterrupt):
        _tell(cluster, time.monotonic() - began)
        if image is not None:
            cluster.import_image(image.archive)
            _tell_tests(cluster, image.name)
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


def _tell_tests(cluster: OneNode, image: str) -> None:
    given = f"INFERPLANE_E2E_KUBECONFIG={cluster.access.kubeconfig} INFERPLANE_E2E_IMAGE={image}"
    sys.stdout.write(
        f"the node has {image}; tests that use this cluster:\n"
        f"  nsenter --net=/proc/{cluster.enclosure.pid}/ns/net env {given} make e2e\n"
    )
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
