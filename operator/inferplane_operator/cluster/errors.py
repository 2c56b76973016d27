"""What can go wrong with an API server.

ClusterError
├── UnreachableError        no answer, or one of 5xx: it may come back
├── ThrottledError          429: come again later
└── RefusedError            4xx: asked again it will say the same
    ├── AbsentError         404
    ├── ConflictError       409
    │   └── ForeignError        somebody else's object has the name
    ├── ForbiddenError      401, 403
    │   └── TerminatingError    the namespace is being deleted
    └── InvalidError        400, 422: the object itself is not accepted
"""


class ClusterError(Exception):
    """Talking to the API server failed."""


class UnreachableError(ClusterError):
    """No answer that says anything about the request."""


class ThrottledError(ClusterError):
    """The server asks to come later."""

    def __init__(self, message: str, *, retry_after_s: float) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class RefusedError(ClusterError):
    """The server understood and said no."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class AbsentError(RefusedError):
    """There is no such object, or no such kind."""


class ConflictError(RefusedError):
    """It exists already, or it is not the one that was meant."""


class ForeignError(ConflictError):
    """What has the name is not ours to change."""


class ForbiddenError(RefusedError):
    """A rule of RBAC is missing, or an admission policy refused."""


class TerminatingError(ForbiddenError):
    """Nothing can be made any more in a namespace that is being deleted."""


class InvalidError(RefusedError):
    """The object breaks its schema."""
