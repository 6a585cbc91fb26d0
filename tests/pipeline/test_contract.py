"""The contract of every integration, told in plain code; and that it finds what is wrong."""

from dataclasses import replace

import pytest

from ragmonitor import Monitor
from ragmonitor.testing import STORIES, Story, check_story


def tell(story: Story, monitor: Monitor) -> None:
    with monitor.interaction(query=story.query) as i:
        i.retrieved(story.chunks)
        prompt = "\n\n".join([*(chunk.text for chunk in story.chunks), story.query])
        i.answered(story.answer, prompt=prompt, usage=story.usage)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"query": "Other?"}, "query: "),
        ({"chunks": STORIES[0].chunks[::-1]}, "chunks: "),
        ({"chunks": STORIES[0].chunks[:1]}, "chunks: "),
        ({"pieces": ("It fell.",)}, "answer: "),
        ({"usage": replace(STORIES[0].usage, input_tokens=80)}, "usage: "),
    ],
)
def test_a_difference_is_found_and_said(wrong: dict[str, object], said: str) -> None:
    """An integration that loses or doubles something fails its contract."""
    story = STORIES[0]
    with pytest.raises(AssertionError, match=f"english: .*{said}"):
        check_story(replace(story, **wrong), lambda _, monitor: tell(story, monitor))


def test_two_interactions_for_one_question_are_found() -> None:
    """Counting double is the worst of mistakes."""

    def twice(story: Story, monitor: Monitor) -> None:
        tell(story, monitor)
        tell(story, monitor)

    with pytest.raises(AssertionError, match="2 interactions instead of one"):
        check_story(STORIES[0], twice)
