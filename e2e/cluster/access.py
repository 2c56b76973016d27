"""How tests reach a cluster, whoever made it: a kubeconfig, kubectl and helm."""

import os
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from e2e.cluster.binaries import path_of

_NO_COLLECTION: Final = {"GOGC": "off", "GOMEMLIMIT": "512MiB"}
"""kubectl and helm live for a moment: a quarter of their CPU would go into collecting garbage."""


class CommandFailedError(AssertionError):
    """A command ended with an error that the test did not expect; the text holds what it said."""


@dataclass(frozen=True, slots=True)
class Access:
    """A cluster's kubeconfig and the commands that read it."""

    kubeconfig: Path

    @property
    def environment(self) -> Mapping[str, str]:
        """Return the environment for any program that is to talk to this cluster."""
        commands = f"{path_of('kubectl').parent}:{path_of('helm').parent}"
        ours = {"KUBECONFIG": str(self.kubeconfig), "PATH": f"{commands}:{os.environ['PATH']}"}
        return {**os.environ, **_NO_COLLECTION, **ours}

    def kubectl(self, *arguments: str, stdin: str = "") -> str:
        """Run kubectl and return what it said; an error is an exception that quotes it."""
        return _said(self.try_kubectl(*arguments, stdin=stdin))

    def try_kubectl(self, *arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        return self._run("kubectl", *arguments, stdin=stdin)

    def helm(self, *arguments: str) -> str:
        return _said(self._run("helm", *arguments))

    def _run(self, program: str, *arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        command = [str(path_of(program)), *arguments]
        return subprocess.run(command, env=self.environment, input=stdin, capture_output=True, text=True, check=False)


def _said(result: subprocess.CompletedProcess[str]) -> str:
    if result.returncode:
        command = " ".join(map(str, result.args))
        raise CommandFailedError(f"{command} ended with {result.returncode}:\n{result.stdout}{result.stderr}")
    return result.stdout
