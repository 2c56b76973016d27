"""The tokenizer's files of the served model, for routers that have no model volume.

Problem: a router makes the engine's tokens, but the model's files are where the engine is, and a hub's cache fills only
while the engine starts.  Idea: the folder is read each time an engine has become ready, together with what the engine
was told about prompts, which becomes one more file.  Only files that a tokenizer or template is made of are served;
weights never.  Invariant: the digest names exactly the set that is served, so a router fetches once for any number of
equal workers.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import Any, Final

import orjson
import structlog

from inferplane_engine.tokens import files_digest, is_tokenizer_file
from inferplane_runtime.http.api import Headers, Response
from inferplane_workers.agent.config import AgentConfig
from inferplane_workers.agent.errors import JSON_HEADER, UnknownPathError, answer

OPTIONS_FILE: Final = "engine_prompt_options.json"
_LARGEST = 256 * 1024 * 1024
_IN_TEMPLATES: Final = frozenset("{}\n")
_log = structlog.get_logger("inferplane.agent.files")


@dataclass(frozen=True, slots=True)
class ModelFiles:
    """What was found at one time."""

    directory: Path = Path()
    digest: str = ""
    sizes: Mapping[str, int] = field(default_factory=dict[str, int])
    made: Mapping[str, bytes] = field(default_factory=dict[str, bytes])
    """Files that are in no folder."""

    def listing(self) -> Response:
        body = orjson.dumps({"digest": self.digest, "files": dict(self.sizes)})
        return Response(200, Headers((JSON_HEADER,)), body)

    def file(self, name: str) -> Response:
        """Answer with one listed file; any other name does not exist."""
        if name not in self.sizes:
            return answer(UnknownPathError(f"no such tokenizer file: {name}"))
        body = self.made[name] if name in self.made else (self.directory / name).read_bytes()
        return Response(200, Headers(((b"content-type", b"application/octet-stream"),)), body)


class ServedFiles:
    """The files in force; none before the first engine start."""

    def __init__(self, config: AgentConfig) -> None:
        self._config = config
        self.current = ModelFiles()

    def read(self, *, max_model_len: int) -> str:
        """Read them anew, for an engine that has become ready; return their digest."""
        options = prompt_options(self._config, max_model_len=max_model_len)
        found = folder(self._config)
        self.current = scan(found, options)
        _log.info("model files", folder=str(found or ""), digest=self.current.digest, files=len(self.current.sizes))
        return self.current.digest


def folder(config: AgentConfig) -> Path | None:
    """Return where the model's files are; the simulated engine's own model is part of this program."""
    if config.model_path is None:
        return Path(str(resources.files("inferplane_engine") / "sim" / "model")) if config.engine == "sim" else None
    return _snapshot(config.model_path, config.model_revision)


def scan(directory: Path | None, options: Mapping[str, Any] | None = None) -> ModelFiles:
    """Read the directory once; without tokenizer files there is nothing to serve and no digest."""
    contents = {} if directory is None or not directory.is_dir() else _contents(directory)
    if directory is None or not contents:
        return ModelFiles()
    made = {OPTIONS_FILE: orjson.dumps(options, option=orjson.OPT_SORT_KEYS)} if options else {}
    contents |= made
    sizes = {name: len(content) for name, content in sorted(contents.items())}
    return ModelFiles(directory, files_digest(contents.items()), sizes, made)


def prompt_options(config: AgentConfig, *, max_model_len: int) -> dict[str, Any]:
    """Return what routers must know of the engine's way with prompts; see `tokens.ModelFiles.prompt_options`."""
    options: dict[str, Any] = {}
    if max_model_len:
        options["max_model_len"] = max_model_len
    if config.chat_template_content_format != "auto":
        options["content_format"] = config.chat_template_content_format
    if config.default_chat_template_kwargs:
        options["chat_template_kwargs"] = dict(config.default_chat_template_kwargs)
    if config.exclude_tools_when_tool_choice_none:
        options["exclude_tools_when_tool_choice_none"] = True
    if config.chat_template:
        options |= _template(config.chat_template)
    return options


def _template(given: str) -> dict[str, Any]:
    """Read a template as the engine does: a file, or the template itself where no file can have that name."""
    try:
        return {"chat_template": Path(given).read_text("utf-8")}
    except (OSError, ValueError) as error:
        if _IN_TEMPLATES & set(given):
            return {"chat_template": given}
        _log.warning("the engine's chat template cannot be read here: the engine renders chats", error=str(error))
        return {"chats_by_engine": f"its chat template {given} is readable by the engine alone"}


def _snapshot(path: Path, revision: str) -> Path:
    """Find the files of a revision in a hub's cache (`models--ORG--NAME`); any other folder is what it is."""
    snapshots = path / "snapshots"
    if not snapshots.is_dir():
        return path
    if revision and (snapshots / revision).is_dir():
        return snapshots / revision
    named = path / "refs" / (revision or "main")
    if named.is_file():
        return snapshots / named.read_text("utf-8").strip()
    there = [entry for entry in snapshots.iterdir() if entry.is_dir()]
    return there[0] if len(there) == 1 else path


def _contents(directory: Path) -> dict[str, bytes]:
    return {
        path.name: path.read_bytes()
        for path in directory.iterdir()
        if is_tokenizer_file(path.name) and path.name != OPTIONS_FILE and path.is_file()
        if path.stat().st_size <= _LARGEST
    }
