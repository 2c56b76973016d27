"""YAML with line numbers, without the parts of YAML that lose or multiply what was written.

The safe loader keeps the last of two equal keys and expands aliases without bound; both are errors here.
Dates stay strings, as JSON has none.
Invariant: the value is what JSON could hold, and every container's entry knows its line.
"""

from dataclasses import dataclass, field
from typing import Any, Final, cast

import yaml

_MAX_VALUES: Final = 50_000
"""Of one document, aliases counted as what they stand for."""
_MAX_NODES: Final = 50_000
"""Keys and values of a whole file, as written."""
_MAX_DEPTH: Final = 64
_SHOWN_DEPTH: Final = 8
"""Parts of a path that an error names: one that goes round in circles has no end."""
_COLLECTION_TAGS: Final = ("tag:yaml.org,2002:map", "tag:yaml.org,2002:seq")


class DocumentError(Exception):
    """The text cannot be read: `line` counts from 1."""

    def __init__(self, message: str, *, fix: str, line: int, path: tuple[str | int, ...] = ()) -> None:
        super().__init__(message)
        self.message = message
        self.fix = fix
        self.line = line
        self.path = path


@dataclass(slots=True)
class Document:
    """One document of a file: its value and where each part of it was written."""

    value: Any
    line: int
    lines: dict[tuple[str | int, ...], int] = field(default_factory=dict[tuple[str | int, ...], int])

    def line_of(self, location: tuple[str | int, ...]) -> int:
        """Return the line of `location`, or of the nearest part above it that is there."""
        while location and location not in self.lines:
            location = location[:-1]
        return self.lines.get(location, self.line)


class _Loader(yaml.SafeLoader):
    """Safe loader whose timestamps are strings.

    It gives up on deep nesting before Python does, and on long files before the user does: reading takes seconds a
    megabyte.
    """

    _depth = 0
    _nodes = 0

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        self._depth += 1
        self._nodes += 1
        if self._depth > _MAX_DEPTH:
            raise self._refusal("nested too deeply", f"keep it under {_MAX_DEPTH} levels")
        if self._nodes > _MAX_NODES:
            raise self._refusal("the file is too large", f"keep it under {_MAX_NODES} keys and values")
        try:
            return super().compose_node(parent, index)
        finally:
            self._depth -= 1

    def _refusal(self, message: str, fix: str) -> DocumentError:
        line: int = cast("Any", self).peek_event().start_mark.line + 1  # the stubs leave it untyped
        return DocumentError(message, fix=fix, line=line)


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def read_documents(text: str) -> list[Document]:
    """Read every document of `text`; empty ones are left out.  Raises DocumentError."""
    try:
        loader = _Loader(text)
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise DocumentError(f"not valid YAML: {error.reason}", fix="write printable text", line=line) from error
    documents: list[Document] = []
    try:
        while loader.check_node():
            node = loader.get_node()
            if node is None:
                break
            builder = _Builder(loader)
            document = Document(value=None, line=node.start_mark.line + 1, lines=builder.lines)
            document.value = builder.build(node, ())
            if document.value is not None:
                documents.append(document)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = mark.line + 1 if mark is not None else 1
        raise DocumentError(f"not valid YAML: {error.problem}", fix="check the indentation", line=line) from error
    except yaml.YAMLError as error:
        raise DocumentError(f"not valid YAML: {error}", fix="write UTF-8 text", line=1) from error
    finally:
        loader.dispose()
    return documents


class _Builder:
    def __init__(self, loader: yaml.SafeLoader) -> None:
        self._loader = loader
        self._count = 0
        self.lines: dict[tuple[str | int, ...], int] = {}

    def build(self, node: yaml.Node, path: tuple[str | int, ...]) -> Any:
        self._count += 1
        if self._count > _MAX_VALUES or len(path) > _MAX_DEPTH:
            message = "the document is too large or nested too deeply"
            raise self._error(message, "split it; mind aliases", node, path[:_SHOWN_DEPTH])
        self.lines.setdefault(path, node.start_mark.line + 1)
        if isinstance(node, yaml.CollectionNode) and node.tag not in _COLLECTION_TAGS:
            raise self._error(f"the tag {node.tag} is not known", "write plain YAML without tags", node, path)
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node, path)
        if isinstance(node, yaml.SequenceNode):
            return [self.build(item, (*path, index)) for index, item in enumerate(node.value)]
        try:
            return cast("Any", self._loader).construct_object(node)  # the stubs leave it untyped
        except yaml.constructor.ConstructorError as error:
            raise self._error(f"{error.problem}", "write plain YAML without tags", node, path) from error
        except ValueError as error:
            raise self._error(f"{error}", "quote it if it is text", node, path) from error

    def _mapping(self, node: yaml.MappingNode, path: tuple[str | int, ...]) -> dict[str, Any]:
        self._refuse_duplicates(node, path)
        self._loader.flatten_mapping(node)
        result: dict[str, Any] = {}
        for key_node, value_node in node.value:
            key = self._key(key_node, path)
            self.lines[(*path, key)] = key_node.start_mark.line + 1
            result[key] = self.build(value_node, (*path, key))
        return result

    def _refuse_duplicates(self, node: yaml.MappingNode, path: tuple[str | int, ...]) -> None:
        seen: dict[tuple[str, str], int] = {}
        for key_node, _ in node.value:
            key = (key_node.tag, str(key_node.value))
            line = key_node.start_mark.line + 1
            if key in seen:
                name = str(key_node.value)
                message = f"the key is given twice, first on line {seen[key]}"
                raise self._error(message, "keep one of the two", key_node, (*path, name))
            seen[key] = line

    def _key(self, node: yaml.Node, path: tuple[str | int, ...]) -> str:
        if isinstance(node, yaml.ScalarNode) and node.tag == "tag:yaml.org,2002:str":
            return str(node.value)
        shown = node.value if isinstance(node, yaml.ScalarNode) else "a collection"
        raise self._error(f"the key {shown} is not a string", "quote it", node, path)

    @staticmethod
    def _error(message: str, fix: str, node: yaml.Node, path: tuple[str | int, ...]) -> DocumentError:
        return DocumentError(message, fix=fix, line=node.start_mark.line + 1, path=path)
