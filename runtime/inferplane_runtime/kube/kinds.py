"""What is watched: one kind of object, and how little of it is asked for."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class WatchedKind:
    """One kind of object."""

    kind: str
    plural: str
    version: str = "v1"
    group: str = ""
    selector: str = ""
    metadata_only: bool = False
    optional: bool = False
    """The cluster may not have it, or may not let us read it: then there are none."""

    def path(self, namespace: str) -> str:
        """Return the URL path of the collection; in all namespaces if the name is empty."""
        root = f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"
        within = f"/namespaces/{namespace}" if namespace else ""
        return f"{root}{within}/{self.plural}"
