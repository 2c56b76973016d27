"""Errors of rendering."""


class RenderError(Exception):
    """A valid resource cannot be rendered: `path` is its field, `fix` says what to do."""

    def __init__(self, path: str, message: str, fix: str) -> None:
        super().__init__(f"{path}: {message}; {fix}")
        self.path = path
        self.message = message
        self.fix = fix
