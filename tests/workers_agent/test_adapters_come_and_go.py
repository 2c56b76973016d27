"""Which adapters an engine has follows what is wanted, and no request ever changes its weights half way."""

import asyncio
from pathlib import Path

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from inferplane_engine.identity import Adapter
from inferplane_workers.agent.adapter_source import AdapterSource, SourceError
from inferplane_workers.agent.adapter_wording import Wording
from inferplane_workers.agent.adapters import AdapterPhase, Adapters, Load, Unload, Use, Wish
from inferplane_workers.agent.errors import AdapterError
from inferplane_workers.testing import MODEL

A1, A2, B1 = Wish("a", "1", "/w/a"), Wish("a", "2", "/w/a2"), Wish("b", "1", "/w/b")


def ready(*wishes: Wish, limit: int = 4) -> Adapters:
    """Adapters of an engine that has these loaded."""
    adapters = Adapters(limit=limit, reserved=(MODEL,))
    for wish in wishes:
        adapters.want(wish)
    adapters.engine_started(())
    settle(adapters)
    return adapters


def settle(adapters: Adapters) -> list[str]:
    """Do what is next until nothing is."""
    done: list[str] = []
    while (step := adapters.next_step()) is not None:
        if isinstance(step, Load):
            adapters.loaded(step.wish)
            done.append(f"+{step.wish.name}{step.wish.revision}")
        else:
            done.append(f"-{adapters.meaning(step.engine_name).name}{adapters.meaning(step.engine_name).revision}")
            adapters.unloaded(step.engine_name)
    return done


def begin(adapters: Adapters, name: str, revision: str = "", *, exactly: bool = False) -> Use:
    use = adapters.use(name, revision, exactly=exactly)
    assert use is not None
    return use


def test_nothing_is_loaded_before_the_engine_has_started() -> None:
    adapters = Adapters(limit=1)
    adapters.want(A1)

    assert adapters.next_step() is None
    assert adapters.entry("a").phase is AdapterPhase.LOADING


def test_a_new_revision_comes_beside_the_old_one_which_goes_with_its_last_request() -> None:
    adapters = ready(A1)
    running = begin(adapters, "a", "1")
    adapters.want(A2)

    assert settle(adapters) == ["+a2"]
    assert adapters.announced() == [Adapter("a", "2")]
    assert begin(adapters, "a").adapter.revision == "2"
    running.end()
    running.end()
    assert settle(adapters) == ["-a1"]


def test_until_the_new_revision_is_there_requests_get_the_old_one() -> None:
    adapters = ready(A1)
    adapters.want(A2)
    adapters.failed(A2, "disk full")

    assert adapters.announced() == [Adapter("a", "1")]
    assert settle(adapters) == []
    entry = adapters.entry("a")
    assert (entry.phase, entry.revision, entry.error, entry.serving) == (AdapterPhase.FAILED, "2", "disk full", "1")


def test_a_failed_load_is_tried_again_when_it_is_asked_for_again() -> None:
    adapters = ready()
    adapters.want(A1)
    adapters.failed(A1, "no")
    assert adapters.next_step() is None
    adapters.want(A1)

    assert adapters.next_step() == Load(A1)


def test_a_load_that_is_under_way_is_not_begun_twice_and_holds_up_no_other() -> None:
    adapters = ready()
    adapters.want(A1)
    adapters.want(B1)
    adapters.begun(A1)

    assert adapters.next_step() == Load(B1)
    adapters.begun(B1)
    assert adapters.next_step() is None
    adapters.failed(A1, "no")
    adapters.want(A1)
    assert adapters.next_step() == Load(A1)


def test_a_failure_of_what_is_no_longer_wanted_is_forgotten() -> None:
    adapters = ready()
    adapters.want(A1)
    adapters.want(A2)
    adapters.failed(A1, "no")

    assert adapters.next_step() == Load(A2)


def test_what_is_dropped_is_no_longer_offered_and_goes_with_its_last_request() -> None:
    adapters = ready(A1, B1)
    running = begin(adapters, "a")
    assert adapters.drop("a")
    assert not adapters.drop("a")

    assert adapters.announced() == [Adapter("b", "1")]
    assert settle(adapters) == []
    assert not adapters.offers("a")
    running.end()
    assert settle(adapters) == ["-a1"]


def test_the_other_half_of_a_hand_off_gets_exactly_the_revision_it_names() -> None:
    adapters = ready(A1)

    assert adapters.use("a", "2", exactly=True) is None
    assert begin(adapters, "a", "1", exactly=True).adapter == Adapter("a", "1")
    assert begin(adapters, "a", "2").adapter == Adapter("a", "1")


def test_more_than_fit_and_names_of_the_model_are_refused() -> None:
    adapters = ready(A1, limit=1)

    with pytest.raises(AdapterError, match="at most 1 adapters: a"):
        adapters.want(B1)
    with pytest.raises(AdapterError, match="name of the model itself"):
        adapters.want(Wish(MODEL, path="/w/x"))
    with pytest.raises(AdapterError, match="started without adapters"):
        Adapters().want(A1)
    adapters.want(A2)  # an update needs no room


def test_after_a_restart_of_the_engine_everything_is_loaded_again() -> None:
    adapters = ready(A1, B1)
    adapters.engine_started(["another"])

    assert adapters.announced() == [Adapter("another")]
    assert adapters.is_engines_own("another")
    assert settle(adapters) == ["+a1", "+b1"]


def test_another_process_goes_on_where_the_first_one_stopped() -> None:
    first = ready(A1, B1)
    first.want(A2)
    second = Adapters(limit=4)
    second.restore(first.saved())
    second.engine_started([A1.engine_name, B1.engine_name])

    assert second.announced() == [Adapter("a", "1"), Adapter("b", "1")]
    assert settle(second) == ["+a2", "-a1"]


@pytest.mark.parametrize("raw", [b"", b"{}", b'{"wishes":[{"x":1}],"meaning":{}}', b'{"wishes":[],"meaning":{"a":1}}'])
def test_what_is_no_saved_state_is_refused(raw: bytes) -> None:
    with pytest.raises(ValueError, match="cannot be read"):
        Adapters(limit=1).restore(raw)


def test_adapters_of_ours_that_nobody_knows_are_unloaded() -> None:
    adapters = Adapters(limit=4)
    adapters.engine_started([A1.engine_name, "another"])

    assert adapters.next_step() == Unload(A1.engine_name)


class Life(RuleBasedStateMachine):
    """Wants, drops, loads that fail, restarts and requests in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.adapters = Adapters(limit=3)
        self.adapters.engine_started(())
        self.engine: set[str] = set()
        self.wanted: dict[str, Wish] = {}
        self.uses: list[Use] = []

    @rule(name=st.sampled_from("abcd"), revision=st.sampled_from("12"))
    def want(self, name: str, revision: str) -> None:
        wish = Wish(name, revision, f"/w/{name}")
        if name not in self.wanted and len(self.wanted) == 3:
            with pytest.raises(AdapterError):
                self.adapters.want(wish)
            return
        self.adapters.want(wish)
        self.wanted[name] = wish

    @rule(name=st.sampled_from("abcd"))
    def drop(self, name: str) -> None:
        assert self.adapters.drop(name) is (self.wanted.pop(name, None) is not None)

    @rule(name=st.sampled_from("abcd"), revision=st.sampled_from("12"))
    def use(self, name: str, revision: str) -> None:
        use = self.adapters.use(name, revision)
        if use is not None:
            assert use.engine_name in self.engine
            self.uses.append(use)

    @precondition(lambda self: self.uses)
    @rule(data=st.data())
    def end(self, data: st.DataObject) -> None:
        self.uses.pop(data.draw(st.integers(0, len(self.uses) - 1))).end()

    @rule(fails=st.booleans())
    def step(self, fails: bool) -> None:  # noqa: FBT001 - drawn
        match self.adapters.next_step():
            case Load(wish) if fails:
                self.adapters.failed(wish, "no")
            case Load(wish):
                self.engine.add(wish.engine_name)
                self.adapters.loaded(wish)
            case Unload(name):
                assert name not in {use.engine_name for use in self.uses}
                self.engine.remove(name)
                self.adapters.unloaded(name)
            case None:
                assert self.engine >= {use.engine_name for use in self.uses}

    @rule()
    def restart(self) -> None:
        self.engine.clear()
        for use in self.uses:
            use.end()
        self.uses.clear()
        self.adapters.engine_started(())

    @invariant()
    def only_what_the_engine_has_is_announced(self) -> None:
        names = {Wish(each.name, each.revision, f"/w/{each.name}").engine_name for each in self.adapters.announced()}
        assert names <= self.engine

    def teardown(self) -> None:
        for use in self.uses:
            use.end()
        for wish in self.wanted.values():
            self.adapters.want(wish)
        while (step := self.adapters.next_step()) is not None:
            if isinstance(step, Load):
                self.engine.add(step.wish.engine_name)
                self.adapters.loaded(step.wish)
            else:
                self.engine.remove(step.engine_name)
                self.adapters.unloaded(step.engine_name)
        assert self.engine == {wish.engine_name for wish in self.wanted.values()}


TestLife = Life.TestCase


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_engines_names_are_replaced_however_an_answer_is_cut(size: int) -> None:
    table = {A1.engine_name.encode(): b"a", B1.engine_name.encode(): b"team/b"}
    told = f'{{"model":"{A1.engine_name}","x":"inferplane-adapter-ffff {B1.engine_name} i"}}'.encode()
    wording = Wording(table)
    pieces = [wording.feed(told[at : at + size]) for at in range(0, len(told), size)]

    assert b"".join(pieces) + wording.finish() == b'{"model":"a","x":"inferplane-adapter-ffff team/b i"}'


def test_an_event_of_a_stream_is_never_held_back() -> None:
    event = f'data: {{"model":"{A1.engine_name}"}}\n\n'.encode()

    assert Wording({A1.engine_name.encode(): b"a"}).feed(event) == b'data: {"model":"a"}\n\n'


class NoHub:
    async def fetch(self, repository: str, revision: str, token: str | None) -> str:
        if token == "wrong":  # noqa: S105 - a word
            raise SourceError("401")
        return f"/cache/{repository}/{revision}/{token}"


def test_only_folders_that_were_mounted_for_adapters_are_taken(tmp_path: Path) -> None:
    source = AdapterSource([tmp_path / "mounted"], NoHub())
    inside = str(tmp_path / "mounted" / "a")

    assert asyncio.run(source.locate(Wish("a", path=inside + "/"))) == inside
    assert asyncio.run(AdapterSource([Path("/")], NoHub()).locate(Wish("a", path="/any/where"))) == "/any/where"
    for outside in (str(tmp_path / "mounted2"), f"{inside}/../../x", "/etc"):
        with pytest.raises(SourceError, match="in no folder that is mounted"):
            asyncio.run(source.locate(Wish("a", path=outside)))


def test_a_hubs_token_is_read_from_its_file(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("secret\n")
    source = AdapterSource([], NoHub())
    wish = Wish("a", "main", hf="org/a", token_file=str(tmp_path / "token"))

    assert asyncio.run(source.locate(wish)) == "/cache/org/a/main/secret"
    with pytest.raises(SourceError, match="token cannot be read"):
        asyncio.run(source.locate(Wish("a", hf="org/a", token_file=str(tmp_path / "none"))))
