"""No text leaves without passing the hook."""

from dataclasses import asdict

from ragmonitor.redaction import redacted
from tests.support.stories import interaction


def test_every_text_passes_the_hook():
    """Query, chunks, answer, errors, of the record and of its steps."""
    told = interaction(
        query="secret?", texts=("secret chunk",), answer="secret answer", error="secret: error"
    )
    found = redacted(told, lambda text: text.replace("secret", "***"))
    assert "secret" not in repr(asdict(found))
    assert found.answer == "*** answer"


def test_a_hook_that_fails_lets_nothing_through():
    """The record comes without texts and is not scored."""

    def broken(_text):
        raise ValueError("pattern")

    found = redacted(interaction(), broken)
    assert (found.query, found.answer, found.capture_incomplete) == ("", "", True)
    assert {c.text for c in found.chunks} == {""}
