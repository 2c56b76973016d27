"""The catalogue file that this instance's router follows.

Every catalogue that differs from the one before gets the next number, which the router gives back at `/ready` once it
routes by it.  So the runner can tell "written" from "in force", and says Ready only of the second.
"""

from collections.abc import Sequence
from pathlib import Path

from inferplane_api.catalogue import Catalogue, CatalogueWorker
from inferplane_operator.local.blueprint import Blueprint
from inferplane_operator.local.statedir import file_stamp, replace_file


class CatalogueWriter:
    """Writes the file when there is news, or when somebody else touched it since."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._written = Catalogue()
        self._stamp: tuple[int, int] | None = None

    @property
    def generation(self) -> int:
        """The number of the newest catalogue in the file; 0 before the first."""
        return self._written.generation

    def write(self, blueprint: Blueprint, entries: Sequence[CatalogueWorker]) -> None:
        """Describe the service and its workers to the router."""
        found = Catalogue(
            generation=self.generation,
            services=(blueprint.service,),
            routes=blueprint.routes,
            workers=tuple(entries),
        )
        if found != self._written:
            found = found.model_copy(update={"generation": self.generation + 1})
        elif self._stamp is not None and self._stamp == file_stamp(self._path):
            return
        replace_file(self._path, found.model_dump_json(by_alias=True, indent=2) + "\n")
        self._written, self._stamp = found, file_stamp(self._path)
