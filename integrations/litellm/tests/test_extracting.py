"""Reading question and chunks out of prompts."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragmonitor import Chunk
from ragmonitor_litellm import first_of, from_template, tagged, tool_messages
from ragmonitor_litellm.extracting import from_metadata

words = st.text(st.characters(exclude_characters="\n{}", exclude_categories=["Cs"]), min_size=1)
texts = words.map(str.strip).filter(bool)


def user(text):
    return {"role": "user", "content": text}


def read(extract, *messages):
    found = extract(messages, {})
    return None if found is None else (found.query, list(found.chunks))


# Templates


@given(question=texts, chunks=st.lists(texts, max_size=5))
def test_a_template_read_backwards_gives_what_was_put_in(question, chunks):
    """For every question and every list of chunks without blank lines."""
    template = "Context:\n{context}\n\nQuestion: {question}"
    extract = from_template(template)
    if "\n\nQuestion: " in question:
        return
    prompt = template.format(context="\n\n".join(chunks), question=question)
    assert read(extract, user(prompt)) == (question, chunks)


@pytest.mark.parametrize(
    "template",
    [
        "Q: {question}\n---\n{context}\n---\nAnswer in {language}.",
        "{context}\n\n{question}",
        "Answer in {language}.\n{{json}}\n<docs>{context}</docs>\nFrage: {question}\n",
    ],
)
def test_templates_may_have_other_fields_and_any_order(template):
    """The context need not come first, and braces may be escaped."""
    filled = template.format(context="a\n\nb", question="What?", language="French")
    assert read(from_template(template), user(filled)) == ("What?", ["a", "b"])


def test_documents_may_quote_the_templates_words():
    """A question rarely does."""
    extract = from_template("Context:\n{context}\n\nQuestion: {question}")
    prompt = "Context:\nFAQ\n\nQuestion: old?\n\nAnswer: yes\n\nQuestion: new?"
    assert read(extract, user(prompt)) == ("new?", ["FAQ", "Question: old?", "Answer: yes"])


def test_the_context_may_stand_in_the_systems_message():
    """The question is then the user's message."""
    extract = from_template("Answer from this:\n{context}")
    messages = [{"role": "system", "content": "Answer from this:\na\n\nb"}, user("What?")]
    assert read(extract, *messages) == ("What?", ["a", "b"])


def test_the_last_turn_counts():
    """A conversation holds the prompts of earlier turns."""
    extract = from_template("C: {context}\nQ: {question}")
    messages = [
        user("C: a\nQ: first?"),
        {"role": "assistant", "content": "C: x\nQ: y"},
        user("C: b\nQ: second?"),
    ]
    assert read(extract, *messages) == ("second?", ["b"])


def test_other_calls_are_not_recognised():
    """Rewriting a question is no answer."""
    extract = from_template("Context:\n{context}\n\nQuestion: {question}")
    assert read(extract, user("Rewrite: What?")) is None
    assert read(extract, user("Context:\nno question")) is None
    assert read(extract) is None


def test_an_empty_context_is_a_context():
    """Nothing was found, and the user got an answer all the same."""
    extract = from_template("Context:\n{context}\n\nQuestion: {question}")
    assert read(extract, user("Context:\n\n\nQuestion: What?")) == ("What?", [])


def test_parts_of_a_message_are_read_as_one_text():
    """Images beside the text are left out."""
    extract = from_template("C: {context}\nQ: {question}")
    parts = [
        {"type": "text", "text": "C: a"},
        {"type": "image_url", "image_url": {"url": "x"}},
        {"type": "text", "text": "Q: q"},
    ]
    assert read(extract, user(parts)) == ("q", ["a"])


@pytest.mark.parametrize(
    "template", ["no field", "{question}", "{context}{question}", "{context} {context}"]
)
def test_a_template_that_cannot_be_read_is_refused(template):
    """When it is given, not when it is used."""
    with pytest.raises(ValueError, match=r"template"):
        from_template(template)


def test_a_long_prompt_is_read_in_time_linear_in_it():
    """Also one that is full of the template's own words."""
    extract = from_template("A {one} B {context} C {two} D {question}")
    prompt = "A " + "B C D " * 100_000 + "?"
    assert read(extract, user(prompt)) is not None


# Tags


def test_what_stands_between_tags_is_context_and_the_rest_the_question():
    """Behind it, or before."""
    prompt = "Use it.\n<context>\na\n\nb\n</context>\nWhat?"
    assert read(tagged(), user(prompt)) == ("What?", ["a", "b"])
    assert read(tagged(), user("What?\n<context>a</context>")) == ("What?", ["a"])


def test_every_passage_counts_that_the_model_sees():
    """Earlier turns too, each chunk once: an answer may rest on them."""
    messages = [
        {"role": "system", "content": "<context>a</context>"},
        user("<context>b</context> First?"),
        {"role": "assistant", "content": "<context>x</context>"},
        user("<context>a\n\nc</context> Second?"),
    ]
    assert read(tagged(), *messages) == ("Second?", ["a", "b", "c"])


def test_without_tags_nothing_is_recognised():
    """Nor with an open one."""
    assert read(tagged(), user("What?")) is None
    assert read(tagged(), user("<context> What?")) is None
    with pytest.raises(ValueError, match="empty"):
        tagged(open="")


# Tools


def call(call_id, name):
    function = {"name": name, "arguments": "{}"}
    return {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": call_id, "function": function}],
    }


def reply(call_id, text):
    return {"role": "tool", "tool_call_id": call_id, "content": text}


def test_what_search_tools_reply_is_context():
    """By the name that the model called; other tools are not retrieval."""
    messages = [
        user("What?"),
        call("1", "SearchDocs"),
        reply("1", "a"),
        call("2", "send_mail"),
        reply("2", "sent"),
    ]
    assert read(tool_messages(), *messages) == ("What?", [Chunk(text="a")])
    assert read(tool_messages("send_*"), *messages) == ("What?", [Chunk(text="sent")])
    assert read(tool_messages("none"), *messages) is None


def test_a_reply_may_be_a_list_of_chunks():
    """As JSON."""
    listed = reply("1", '["a", {"text": "b", "id": 7, "score": 0.5}]')
    found = tool_messages()([user("q"), call("1", "search"), listed], {})
    assert list(found.chunks) == [Chunk(text="a"), Chunk(text="b", id="7", score=0.5)]
    prose = read(tool_messages(), user("q"), call("1", "search"), reply("1", "[1] a"))
    assert prose == ("q", [Chunk(text="[1] a")])


# Several, and metadata


def test_the_first_that_recognises_wins():
    """In the order they were given."""
    extract = first_of(tagged(), from_template("C: {context}\nQ: {question}"))
    assert read(extract, user("C: a\nQ: q")) == ("q", ["a"])
    assert read(extract, user("<context>b</context> q")) == ("q", ["b"])
    assert read(extract, user("q")) is None


def test_an_id_may_be_a_number_from_zero_on():
    """As a vector store's that counts its points."""
    chunks = [{"text": "Blue.", "id": 0}, {"text": "Red.", "id": 1}, {"text": "Green."}]
    found = from_metadata({"chunks": chunks}, [])
    assert [each.id for each in found.chunks] == ["0", "1", ""]


def test_metadata_may_be_json_and_name_no_query():
    """OpenAI's clients send texts only."""
    found = from_metadata('{"chunks": ["a", {"page_content": "b"}]}', [user("What?")])
    assert (found.query, [c.text for c in found.chunks]) == ("What?", ["a", "b"])


@pytest.mark.parametrize("said", [7, [], {}, {"chunks": "a"}, {"chunks": [7]}, {"chunks": [{}]}])
def test_metadata_of_another_shape_is_said(said):
    """With what was expected."""
    with pytest.raises(TypeError, match=re.compile("has to be")):
        from_metadata(said, [])
