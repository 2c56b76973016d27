"""A chat of nothing but texts goes to its template as it came: that must be what the rules for all chats make of it."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inferplane_engine.tokens.content_format import ContentFormat
from inferplane_engine.tokens.messages import BILLING_HEADER, NotEncodableError, conversation
from inferplane_engine.tokens.plain_chat import plain_talk

texts = st.one_of(
    st.text(max_size=8), st.just(f"{BILLING_HEADER}: 1\nBe brief."), st.none(), st.lists(st.text(), max_size=1)
)
roles = st.sampled_from(["user", "assistant", "system", "developer", "tool", "custom"])
spoken = st.fixed_dictionaries({"role": roles, "content": texts})
shapes = st.one_of(
    spoken,
    spoken.map(lambda message: dict(reversed(message.items()))),
    spoken.map(lambda message: message | {"name": "ada"}),
    spoken.map(lambda message: message | {"reasoning": "because"}),
)


@given(messages=st.lists(shapes, max_size=4), developers=st.booleans())
def test_a_plain_talk_is_the_conversation(messages: list[dict[str, Any]], *, developers: bool) -> None:
    plain = plain_talk({"messages": messages, "model": "m", "temperature": 0.5})
    if plain is None:
        return

    expected = conversation(messages, ContentFormat.STRING, developer_role=developers)

    assert plain == expected
    assert [list(message) for message in plain] == [list(message) for message in expected]


def test_most_chats_are_plain() -> None:
    talk = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "é 日本"}]

    assert plain_talk({"messages": talk, "max_tokens": 5, "stream": True}) is talk


@pytest.mark.parametrize("field", ["tools", "chat_template_kwargs", "documents", "continue_final_message"])
def test_what_else_has_a_say_makes_a_chat_not_plain(field: str) -> None:
    assert plain_talk({"messages": [{"role": "user", "content": "hi"}], field: None}) is None


def test_a_lone_surrogate_is_refused_as_anywhere() -> None:
    body = {"messages": [{"role": "user", "content": "\ud800"}]}

    with pytest.raises(UnicodeEncodeError):
        plain_talk(body)
    with pytest.raises((UnicodeEncodeError, NotEncodableError)):
        conversation(body["messages"], ContentFormat.STRING, developer_role=False)
