"""No text leaves without passing redaction."""

from dataclasses import asdict, replace
from pathlib import PurePosixPath

import pytest

from ragmonitor.records import Chunk, Message
from ragmonitor.redaction import Redactor
from tests.support.stories import interaction

KEY = "sk-proj-" + "a1B2c3D4e5" * 4
PASSWORD = "hunter2-hunter2"


def everywhere(text, **changes):
    """Return a record that has the text wherever one can be."""
    told = interaction(query=text, texts=(text,), answer=text, error=f"ValueError: {text}")
    chunk = Chunk(text=text, metadata={"page": 3, "note": text, "deep": [{"more": (text,)}]})
    return replace(
        told,
        chunks=(chunk,),
        not_shown=(chunk,),
        reference=text,
        reference_chunks=(chunk,),
        retrievals=(replace(told.retrievals[0], chunks=(chunk,), error=text),),
        generations=(
            replace(told.generations[0], input=(Message(role="user", text=text),), error=text),
        ),
        **changes,
    )


def test_what_is_known_to_be_right_is_redacted_too():
    """The reference answer and its chunks go to the judge and into files as the others do."""
    chunk = Chunk(text=f"Jane has {KEY}", metadata={"note": "Jane"})
    told = interaction(reference=f"Jane uses {KEY}", reference_chunks=(chunk,))
    found = Redactor(("secrets", lambda text: text.replace("Jane", "***")))(told)
    assert found.reference == "*** uses [redacted:api_key]"
    (redacted,) = found.reference_chunks
    assert redacted.text == "*** has [redacted:api_key]"
    assert redacted.metadata == {"note": "***"}


def test_every_text_passes_the_hook():
    """The application's own redaction runs in addition, over metadata too."""
    found = Redactor(("secrets", lambda text: text.replace("Jane", "***")))(
        everywhere(f"Jane has {KEY}")
    )
    assert "Jane" not in repr(asdict(found))
    assert KEY not in repr(asdict(found))
    assert found.answer == "*** has [redacted:api_key]"


def test_labels_of_the_application_do_not_pass_the_hook():
    """Tenant and route are what people filter by; a hook for texts would break them."""
    told = interaction(attributes={"tenant": "Jane"}, tags=("Jane",), user_id="Jane")
    found = Redactor(("secrets", lambda text: text.replace("Jane", "***")))(told)
    assert (found.attributes, found.tags, found.user_id) == ({"tenant": "Jane"}, ("Jane",), "Jane")


def test_metadata_keep_what_is_no_secret():
    """Spans still say where a chunk is from; keys, numbers and nesting stay."""
    metadata = {
        "source": "docs/policy.md",
        "page": 3,
        "score": 0.5,
        "latest": True,
        "none": None,
        "path": PurePosixPath(f"/keys/{KEY}"),
        "nested": {"list": ["plain", f"api_key={PASSWORD}"]},
    }
    told = interaction()
    (chunk,) = Redactor()(replace(told, chunks=(Chunk(text="t", metadata=metadata),))).chunks
    assert chunk.metadata == {
        "source": "docs/policy.md",
        "page": 3,
        "score": 0.5,
        "latest": True,
        "none": None,
        "path": "/keys/[redacted:api_key]",
        "nested": {"list": ["plain", "api_key=[redacted:api_key]"]},
    }


def test_a_secret_that_one_text_gives_away_is_gone_from_all():
    """The answer quotes what only the chunk names: it would leak, and be judged as invented."""
    told = interaction(
        query="How do I log in?",
        texts=(f"password={PASSWORD}",),
        answer=f"Log in with {PASSWORD}, not with {PASSWORD}9.",
    )
    found = Redactor()(told)
    assert found.answer == f"Log in with [redacted:password], not with {PASSWORD}9."


def test_a_short_secret_is_gone_from_all_texts_too():
    """Six characters with a digit are a password; a short word is one of everyday language."""
    told = interaction(
        texts=("WiFi password: abc123", 'the "password": "summer"'),
        answer="In summer the code is abc123.",
    )
    assert Redactor()(told).answer == "In summer the code is [redacted:password]."


def test_a_secret_is_known_by_its_key_in_metadata():
    """`{"password": ...}` in a chunk's metadata hides it there and in the texts."""
    chunk = Chunk(text=f"The door opens with {PASSWORD}.", metadata={"password": PASSWORD})
    (found,) = Redactor()(replace(interaction(), chunks=(chunk,))).chunks
    assert found.metadata == {"password": "[redacted:secret]"}
    assert found.text == "The door opens with [redacted:secret]."


def test_without_secrets_a_record_is_as_it_was():
    """Redaction of a clean record changes nothing that can be seen."""
    told = everywhere("Plain text.")
    assert Redactor()(told).chunks[0].text == "Plain text."
    assert Redactor()(told).redacted == 0


@pytest.mark.parametrize("broken", ["raises", "gives nothing"])
def test_a_hook_that_fails_lets_nothing_through(broken):
    """The record comes without texts and is not scored; the kind of its error stays."""

    def hook(text):
        if broken == "raises":
            raise ValueError(f"cannot handle {text}")

    found = Redactor(("secrets", hook))(everywhere("Jane", attributes={"note": "Jane"}))
    assert "Jane" not in repr(asdict(found))
    assert (found.query, found.answer, found.capture_incomplete) == ("", "", True)
    assert found.error == "ValueError"
    assert Redactor(("secrets", hook)).text("Jane") == ""


def test_a_hook_that_fails_does_not_quote_the_text_in_the_log(caplog):
    """Its message may; the log says where it failed and what kind of error it was."""

    def hook(text):
        raise KeyError(text)

    Redactor(("secrets", hook))(interaction(query="Jane's question"))
    assert "KeyError in a redaction" in caplog.text
    assert "Jane" not in caplog.text


def test_a_hook_that_fails_lets_no_reference_through():
    """As no other text."""

    def broken(_text):
        raise ValueError

    chunk = Chunk(text="Jane", metadata={"note": "Jane"})
    told = interaction(reference="Jane", reference_chunks=(chunk,))
    found = Redactor(("secrets", broken))(told)
    assert (found.reference, found.reference_chunks) == ("", (Chunk(text="", metadata={}),))
