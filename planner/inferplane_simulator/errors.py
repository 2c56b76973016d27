"""Errors of simulations."""


class ScenarioError(Exception):
    """A scenario that cannot be run: the field, what is wrong with it, what to do."""

    def __init__(self, field: str, problem: str, fix: str) -> None:
        super().__init__(f"{field}: {problem}; {fix}")
        self.field = field
        self.problem = problem
        self.fix = fix
