"""Errors of workloads."""


class WorkloadError(Exception):
    """A trace or a parameter that cannot be used: `where` (file and line, or parameter), what is wrong, what to do."""

    def __init__(self, where: str, problem: str, fix: str) -> None:
        super().__init__(f"{where}: {problem}; {fix}")
        self.where = where
        self.problem = problem
        self.fix = fix
