"""Runs helm on the project's chart, for tests."""

import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, cast

import yaml

CHART: Final = Path(__file__).parents[1] / "helm" / "inferplane"
KUBERNETES: Final = "1.37.0"
"""What templates are rendered for; one's own build of helm assumes a version that the chart is too new for."""
Manifest = dict[str, Any]


class HelmError(Exception):
    """Helm refused; the text is its own."""


def find_helm() -> Path | None:
    """Return `INFERPLANE_HELM`, the one on PATH, or what the end-to-end tests have built."""
    named = os.environ.get("INFERPLANE_HELM") or shutil.which("helm")
    if named:
        return Path(named)
    home = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    built = (Path(home) / "inferplane" / "e2e").glob("helm-*/helm")
    return max(built, key=lambda path: path.stat().st_mtime, default=None)


@dataclass(frozen=True, slots=True)
class Helm:
    """One helm binary, with the environment variables that it gets beside the caller's."""

    program: Path
    variables: Mapping[str, str] = field(default_factory=lambda: {"KUBECONFIG": os.devnull})
    """By default it finds no cluster."""

    def __call__(self, *arguments: str | Path) -> str:
        """Return what it prints.  Raises HelmError."""
        done = subprocess.run(  # noqa: S603 - the binary that was found
            [self.program, *arguments],
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, **self.variables},
        )
        if done.returncode:
            raise HelmError(done.stderr.strip() or done.stdout.strip())
        return done.stdout

    def render(
        self,
        values: Mapping[str, Any] | None = None,
        *,
        release: str = "inferplane",
        namespace: str = "inferplane-system",
        chart: Path = CHART,
        more: Sequence[str] = (),
    ) -> list[Manifest]:
        """Return the manifests of a release with these values.  Raises HelmError."""
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "values.json"
            file.write_text(json.dumps(values or {}, ensure_ascii=False), "utf-8")
            where = ("--namespace", namespace, "--kube-version", KUBERNETES)
            text = self("template", release, chart, *where, "--values", file, *more)
        documents = cast("list[Manifest | None]", list(yaml.load_all(text, Loader=yaml.CSafeLoader)))
        return [document for document in documents if document]

    def notes(self, values: Mapping[str, Any] | None = None, *, release: str = "inferplane") -> str:
        """Return what `helm install` says at its end; it does so with a cluster only, so a copy renders it as text."""
        with tempfile.TemporaryDirectory() as folder:
            copy = shutil.copytree(CHART, Path(folder) / "chart")
            (copy / "templates" / "notes.yaml").write_text(_NOTES, "utf-8")
            manifests = self.render(values, release=release, chart=copy, more=("--show-only", "templates/notes.yaml"))
        return str(manifests[0]["notes"])


_NOTES: Final = """
notes: |
  {{- include (print .Template.BasePath "/NOTES.txt") . | nindent 2 }}
"""


def pod_specs(manifests: Iterable[Manifest]) -> Iterator[tuple[str, Manifest]]:
    """Yield the spec of every Pod that these manifests make, with the name of what makes it."""
    for manifest in manifests:
        name = f"{manifest['kind']}/{manifest['metadata']['name']}"
        if manifest["kind"] == "Pod":
            yield name, manifest["spec"]
        elif "template" in manifest.get("spec", {}):
            yield name, manifest["spec"]["template"]["spec"]
