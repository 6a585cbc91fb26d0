"""Calls within `with monitor.interaction(...)` become parts of that interaction."""

import litellm
import pytest

from ragmonitor.integration import Usage
from ragmonitor_litellm import instrument
from tests.support.openai_server import Reply, refused

pytestmark = pytest.mark.slow

PLAIN = [{"role": "user", "content": "Hello."}]


@pytest.fixture
def plain(quiet):
    """Give a monitor that is told of litellm's calls, without an extractor."""
    instrument(quiet.monitor)
    quiet.call["messages"] = PLAIN
    return quiet


async def test_every_call_counts_its_tokens_once(plain, server, story):
    """Also if the application says the answer itself."""
    server.script(Reply(content="rewritten", input_tokens=10, output_tokens=1))
    server.script(Reply(content="Six months.", input_tokens=100, output_tokens=2))
    with plain.monitor.interaction(query="How often?") as i:
        await litellm.acompletion(**plain.call)
        i.retrieved(story.CHUNKS)
        reply = await litellm.acompletion(**plain.call)
        i.answered(reply.choices[0].message.content + " [1]")
    (interaction,) = await plain.later()
    assert interaction.answer == "Six months. [1]"
    assert interaction.usage == Usage(input_tokens=110, output_tokens=3)
    assert [g.output for g in interaction.generations] == ["rewritten", "Six months."]


async def test_a_failure_that_leaves_the_block_is_its_error(plain, server, way):
    """With the model call that failed."""
    server.script(refused(500))
    with pytest.raises(litellm.InternalServerError), plain.monitor.interaction(query="How often?"):
        await way(plain.call)
    (interaction,) = await plain.later()
    assert interaction.status == "error"


async def test_a_failure_that_the_application_handles_is_not(plain, server, story):
    """It asked another model."""
    server.script(refused(500))
    with plain.monitor.interaction(query="How often?") as i:
        i.retrieved(story.CHUNKS)
        try:
            await litellm.acompletion(**plain.call)
        except litellm.InternalServerError:
            await litellm.acompletion(**plain.call)
    (interaction,) = await plain.later()
    assert (interaction.status, interaction.answer) == ("ok", story.ANSWER)
    failed, answered = interaction.generations
    assert failed.error.startswith("InternalServerError")
    assert not answered.error
