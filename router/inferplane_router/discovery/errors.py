"""What can go wrong while a cluster is watched.

DiscoveryError
├── UnreachableError      no answer, or one that is not an API server's
├── GoneError             the version that was asked for is too old: list anew
└── RefusedError          the API server said no
    ├── AbsentError       it does not know the kind
    └── ForbiddenError    we may not read it
"""


class DiscoveryError(Exception):
    """The cluster could not be read; what was read before stays in force."""


class UnreachableError(DiscoveryError):
    pass


class GoneError(DiscoveryError):
    pass


class RefusedError(DiscoveryError):
    def __init__(self, message: str, *, retry_after_s: float = 0.0) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s
        """How long the API server asked us to wait; 0: it did not."""


class AbsentError(RefusedError):
    pass


class ForbiddenError(RefusedError):
    pass
