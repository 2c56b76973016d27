from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

import pytest

from inferplane_runtime.settings import SettingsError, from_mapping, load, parse_address, parse_duration, setting


class Role(StrEnum):
    PREFILL = "prefill"
    DECODE = "decode"


@dataclass(frozen=True, slots=True)
class Flags:
    """A process."""

    worker_id: str = setting(help="name")
    role: Role = setting(help="side", default=Role.DECODE)
    served_name: tuple[str, ...] = setting(help="names", default=())
    drain_timeout: float = setting(help="100 % of it", default=30.0, parse=parse_duration, minimum=0)
    listen: str = setting(help="address", default="127.0.0.1:0", parse=parse_address)
    ranks: int = setting(help="ranks", default=1, minimum=1, maximum=8)
    canary: bool = setting(help="canary", default=True)
    state_dir: Path | None = setting(help="state", default=None)


@dataclass(frozen=True, slots=True)
class Limits:
    max_body_bytes: int = setting(help="bytes", default=10, minimum=1)


@dataclass(frozen=True, slots=True)
class File:
    cache_dir: Path
    limits: Limits = field(default_factory=Limits)
    names: tuple[str, ...] = ()


def test_flags_win_over_the_environment_and_that_over_defaults() -> None:
    environ = {"INFERPLANE_WORKER_ID": "from-env", "INFERPLANE_RANKS": "2", "INFERPLANE_SERVED_NAME": "a,b"}
    flags = load(
        Flags, ["--ranks", "4", "--drain-timeout", "2m", "--canary", "off", "--state-dir", "/x"], environ, program="p"
    )

    assert flags == Flags(
        worker_id="from-env", served_name=("a", "b"), ranks=4, drain_timeout=120.0, canary=False, state_dir=Path("/x")
    )


def test_a_repeatable_flag_collects() -> None:
    argv = ["--worker-id", "w", "--served-name", "a", "--served-name", "b"]

    assert load(Flags, argv, {}, program="p").served_name == ("a", "b")


@pytest.mark.parametrize(
    ("argv", "environ", "message"),
    [
        ([], {}, "--worker-id: is required (or INFERPLANE_WORKER_ID)"),
        (["--ranks", "x"], {}, "--ranks: 'x' is not a whole number"),
        (["--ranks", "9"], {}, "--ranks: 9 is too large: at most 8"),
        ([], {"INFERPLANE_RANKS": "0"}, "INFERPLANE_RANKS: 0 is too small: at least 1"),
        (["--role", "both"], {}, "--role: 'both' is not one of prefill, decode"),
        (["--drain-timeout", "soon"], {}, "--drain-timeout: 'soon' is not a duration: write 30s, 500ms or 2m"),
        (["--listen", "8000"], {}, "--listen: '8000' is not an address: write host:port, such as 127.0.0.1:8000"),
        (["--canary", "maybe"], {}, "--canary: 'maybe' is neither on nor off"),
    ],
)
def test_a_wrong_setting_is_named_with_what_to_write(argv: list[str], environ: dict[str, str], message: str) -> None:
    given = argv if message.startswith("--worker-id") else ["--worker-id", "w", *argv]
    with pytest.raises(SettingsError) as caught:
        load(Flags, given, environ, program="p")

    assert str(caught.value) == message


def test_an_unknown_flag_and_an_abbreviation_are_wrong_usage(capsys: pytest.CaptureFixture[str]) -> None:
    for flag in ("--nonsense", "--rank"):
        with pytest.raises(SystemExit) as caught:
            load(Flags, ["--worker-id", "w", flag, "1"], {}, program="p")

        assert caught.value.code == 2
        assert flag in capsys.readouterr().err


def test_a_file_is_read_with_nested_camel_case_keys() -> None:
    file = from_mapping(File, {"cacheDir": "/c", "limits": {"maxBodyBytes": 5}, "names": ["a"]})

    assert file == File(cache_dir=Path("/c"), limits=Limits(5), names=("a",))


@pytest.mark.parametrize(
    ("mapping", "message"),
    [
        ({}, "cacheDir: is required"),
        ([], "(file): must be a mapping, not list"),
        ({"cacheDir": "/c", "limits": {"maxBody": 5}}, "limits.maxBody: unknown key; known here: maxBodyBytes"),
        ({"cacheDir": "/c", "limits": {"maxBodyBytes": 0}}, "limits.maxBodyBytes: 0 is too small: at least 1"),
        ({"cacheDir": "/c", "limits": {"maxBodyBytes": True}}, "limits.maxBodyBytes: must be a number, not a boolean"),
        ({"cacheDir": "/c", "limits": 3}, "limits: must be a mapping, not int"),
        ({"cacheDir": ["/c"]}, "cacheDir: must be text, not a list"),
    ],
)
def test_a_wrong_file_names_the_path_of_the_field(mapping: object, message: str) -> None:
    with pytest.raises(SettingsError) as caught:
        from_mapping(File, mapping)

    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("text", "seconds"), [("30", 30.0), ("1.5s", 1.5), ("200ms", 0.2), ("2m", 120.0), ("1h", 3600.0)]
)
def test_durations_are_read_with_their_unit(text: str, seconds: float) -> None:
    assert parse_duration(text) == pytest.approx(seconds)
