"""A served name leads to one service: the one that claimed it first."""

from itertools import permutations

from hypothesis import given, settings
from hypothesis import strategies as st

from inferplane_api.claims import Claim, Key, claims_of, holders
from inferplane_api.v1alpha1 import InferenceService, LoRAAdapter
from inferplane_api.v1alpha1.manifests import parse_resource

EARLY, LATE = "2026-01-01T00:00:00Z", "2026-02-01T00:00:00Z"
A, B = Key("one", "a"), Key("two", "b")

KEYS = st.builds(Key, namespace=st.sampled_from(["x", "y"]), name=st.sampled_from(["p", "q"]))
CLAIMS = st.lists(
    st.builds(Claim, name=st.sampled_from(["m", "n"]), service=KEYS, since=st.sampled_from(["", EARLY, LATE])),
    max_size=6,
)


def service(name: str, created: str, *served: str) -> InferenceService:
    parsed = parse_resource(
        {
            "apiVersion": "inferplane.dev/v1alpha1",
            "kind": "InferenceService",
            "metadata": {"name": name, "creationTimestamp": created},
            "spec": {"model": {"name": "m", "servedNames": list(served)}, "engine": {"type": "sim"}},
        }
    )
    assert isinstance(parsed, InferenceService)
    return parsed


def adapter(name: str, created: str, of: str) -> LoRAAdapter:
    parsed = parse_resource(
        {
            "apiVersion": "inferplane.dev/v1alpha1",
            "kind": "LoRAAdapter",
            "metadata": {"name": name, "creationTimestamp": created},
            "spec": {"service": of, "source": {"path": "/a"}},
        }
    )
    assert isinstance(parsed, LoRAAdapter)
    return parsed


def test_the_older_claim_wins() -> None:
    assert holders([Claim("m", A, LATE), Claim("m", B, EARLY)]) == {"m": B}


def test_equal_times_are_decided_by_namespace_and_name() -> None:
    assert holders([Claim("m", B, EARLY), Claim("m", A, EARLY)]) == {"m": A}


def test_what_is_not_created_yet_takes_no_name_away() -> None:
    assert holders([Claim("m", A), Claim("m", B, LATE)]) == {"m": B}


def test_a_service_keeps_the_names_that_nobody_else_claims() -> None:
    claims = [*claims_of(service("old", EARLY, "m")), *claims_of(service("new", LATE, "m", "n"))]

    assert holders(claims) == {"m": Key("default", "old"), "n": Key("default", "new")}


def test_an_adapter_claims_from_its_own_creation_on() -> None:
    claims = [
        *claims_of(service("old", EARLY, "m"), [adapter("style", LATE, "old")]),
        *claims_of(service("new", "2026-01-15T00:00:00Z", "style")),
    ]

    assert holders(claims)["style"] == Key("default", "new")


def test_an_adapter_that_waited_for_its_service_claims_from_then_on() -> None:
    claims = claims_of(service("late", LATE, "m"), [adapter("style", EARLY, "late")])

    assert [claim.since for claim in claims] == [LATE, LATE]


def test_adapters_of_other_services_claim_nothing_here() -> None:
    claims = claims_of(service("s", EARLY, "m"), [adapter("style", EARLY, "other")])

    assert [claim.name for claim in claims] == ["m"]


@settings(deadline=None)
@given(CLAIMS)
def test_the_order_of_claims_does_not_matter(claims: list[Claim]) -> None:
    found = [holders(order) for order in permutations(claims)]

    assert all(each == found[0] for each in found)
    assert set(found[0]) == {claim.name for claim in claims}
