"""Errors of planning."""


class PlanningError(Exception):
    """Something that no plan can be made from: what, what is wrong with it, what to do."""

    def __init__(self, what: str, problem: str, fix: str) -> None:
        super().__init__(f"{what}: {problem}; {fix}")
        self.what = what
        self.problem = problem
        self.fix = fix
