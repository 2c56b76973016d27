"""Extra keys are the same in every process, and salts keep tenants apart."""

import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inferplane_engine.identity import ExtraValue, engine_salt, extra_key, prompt_extras, salt_key

scalars: st.SearchStrategy[ExtraValue] = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text() | st.binary()
)
values: st.SearchStrategy[ExtraValue] = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3)
)


def canonical(value: ExtraValue) -> str:
    """Equal exactly when two values are the same extra key (1, True and 1.0 are not)."""
    if isinstance(value, dict):
        return "{" + ",".join(f"{key!r}:{canonical(value[key])}" for key in sorted(value)) + "}"
    if isinstance(value, list | tuple):
        return "[" + ",".join(canonical(item) for item in value) + "]"
    return repr(value)


@settings(deadline=None)
@given(values, values)
def test_different_values_have_different_keys(one: ExtraValue, other: ExtraValue) -> None:
    assert (extra_key(one) == extra_key(other)) == (canonical(one) == canonical(other))


def test_where_one_value_ends_counts() -> None:
    keys = [
        extra_key("ab", "c"),
        extra_key("a", "bc"),
        extra_key("abc"),
        extra_key(("ab", "c")),
        extra_key("ab", ("c",)),
    ]

    assert len(set(keys)) == len(keys)


def test_lists_and_tuples_are_the_same_key() -> None:
    assert extra_key(("hash", 3), "salt") == extra_key(["hash", 3], "salt")


def test_no_keys_is_zero_and_only_that() -> None:
    assert extra_key() == 0
    assert extra_key(None) != 0
    assert salt_key(None) == salt_key("") == 0


def test_a_salt_is_the_extra_key_that_an_engine_reports_for_it() -> None:
    extras = prompt_extras("s")

    assert extras is not None
    assert extras.tolist() == [salt_key("s")] == [extra_key("s")]


def test_keys_do_not_depend_on_the_process() -> None:
    program = "from inferplane_engine.identity import extra_key; print(extra_key('s', [1, b'x', {'a': None}]))"
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert int(result.stdout) == extra_key("s", [1, b"x", {"a": None}])


def test_an_unknown_type_is_refused_by_name() -> None:
    with pytest.raises(TypeError, match="an extra key cannot hold a set"):
        extra_key({1})  # type: ignore[arg-type]  # that is the point


@settings(deadline=None)
@given(st.text(), st.text(), st.text(), st.text())
def test_engine_salts_are_injective_in_tenant_and_client_salt(t1: str, s1: str, t2: str, s2: str) -> None:
    assert (engine_salt(t1, s1) == engine_salt(t2, s2)) == ((t1, s1) == (t2, s2))


def test_without_tenant_and_salt_the_engine_sees_none() -> None:
    assert engine_salt("", "") is None


def test_a_client_cannot_send_a_derived_salt_to_reach_another_tenant() -> None:
    stolen = engine_salt("victim", "")

    assert stolen is not None
    assert engine_salt("thief", stolen) != stolen
