"""What can go wrong with a cluster's API server.

KubeError
├── UnreachableError      no answer, or one that is not an API server's
├── GoneError             the version that was asked for is too old: list anew
└── RefusedError          the API server said no
    ├── AbsentError       it does not know the kind, or there is no such object
    ├── ConflictError     there is one already, or it is not the one that was meant
    └── ForbiddenError    we may not read it
"""


class KubeError(Exception):
    """The cluster could not be read; what was read before stays in force."""


class UnreachableError(KubeError):
    pass


class GoneError(KubeError):
    pass


class RefusedError(KubeError):
    def __init__(self, message: str, *, retry_after_s: float = 0.0) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s
        """How long the API server asked us to wait; 0: it did not."""


class AbsentError(RefusedError):
    pass


class ConflictError(RefusedError):
    pass


class ForbiddenError(RefusedError):
    pass
