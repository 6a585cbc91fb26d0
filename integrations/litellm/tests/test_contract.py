"""The contract of every integration, told to litellm."""

import gc

import pytest

from ragmonitor import Monitor
from ragmonitor.testing import STORIES, Story, check_story
from ragmonitor_litellm import instrument, uninstrument
from tests.support.openai_server import OpenAiServer, Reply  # before litellm: its environment

import litellm  # isort: skip

# No retriever is litellm's; a failure is its own exception; of a stream that is closed early it
# does not tell the text.
STORIES_OF_ITS_OWN = [s for s in STORIES if not s.fails and s.read is None]


def tell(story: Story, monitor: Monitor) -> None:
    reply = Reply(
        content=story.answer,
        input_tokens=story.usage.input_tokens,
        output_tokens=story.usage.output_tokens,
    )
    prompt = "\n\n".join([*(chunk.text for chunk in story.chunks), story.query])
    chunks = [{"id": c.id, "text": c.text, "score": c.score} for c in story.chunks]
    instrument(monitor)
    try:
        with OpenAiServer(reply) as server:
            given = litellm.completion(
                model="openai/telling",
                api_base=server.api_base,
                api_key="none",
                messages=[{"role": "user", "content": prompt}],
                stream=story.streamed,
                stream_options={"include_usage": True} if story.streamed else None,
                metadata={"ragmonitor": {"query": story.query, "chunks": chunks}},
            )
            if story.streamed:
                said = "".join(p.choices[0].delta.content or "" for p in given if p.choices)
            else:
                said = given.choices[0].message.content
            assert said == story.answer
        del given
        gc.collect()
        assert monitor.flush(20)
    finally:
        uninstrument()


@pytest.mark.parametrize("story", STORIES_OF_ITS_OWN, ids=str)
def test_the_story_is_captured_as_it_was_told(story: Story) -> None:
    """Query, chunks, answer, usage, status, caller, prompt; nothing is left open."""
    check_story(story, tell)
