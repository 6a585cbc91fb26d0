"""`llama-index-packs-auto-merging-retriever` and `llama-index-packs-fusion-retriever`.

LlamaHub packs: each builds its own index, retriever and query engine, and answers with `run`.
"""

from __future__ import annotations

from tests.support.openai_server import refused
from tests.third_party_apps.scene import Scene, check, in_prompt, opened, says, server

server()

from llama_index.core import Document  # noqa: E402 - the environment goes first
from llama_index.core.schema import TextNode  # noqa: E402
from llama_index.packs.auto_merging_retriever import AutoMergingRetrieverPack  # noqa: E402
from llama_index.packs.fusion_retriever import (  # noqa: E402
    HybridFusionRetrieverPack,
    QueryRewritingRetrieverPack,
)

from ragmonitor_llama_index import instrument, uninstrument  # noqa: E402

QUESTION = "When was the tower built?"
ANSWER = "It was built from 1887 to 1889."
FACTS = (
    "The Eiffel Tower was built from 1887 to 1889.",
    "The tower is 330 metres tall and stands in Paris.",
    "The Great Wall is 21196 kilometres long.",
    "The Colosseum was finished in the year 80.",
    "The Statue of Liberty was a gift of France.",
    "Big Ben is the nickname of a bell in London.",
)


def book() -> Document:
    """Return a text of three paragraphs that leaves of 128 tokens cut in many."""
    return Document(
        text="\n\n".join(
            " ".join(f"{fact} Remark {part}.{n} adds a detail." for n, fact in enumerate(FACTS * 8))
            for part in range(3)
        )
    )


def auto_merging(scene: Scene) -> None:
    """Leaves are retrieved, and parents shown where most of their leaves were found."""
    pack = AutoMergingRetrieverPack([book()])
    engine = pack.get_modules()["query_engine"]
    for way in ("run", "aquery"):
        with scene.played(f"auto-merging {way}", says(ANSWER)) as played:
            response = pack.run(QUESTION) if way == "run" else scene.run(engine.aquery(QUESTION))
        sources = [node.node.get_content() for node in response.source_nodes]
        assert in_prompt(played.chats[0], sources) == sources
        found = [c for r in played.only.retrievals for c in r.chunks]
        assert [c.text for c in found] == sources, "what the retriever gave"
        check(
            played.only,
            played,
            query=QUESTION,
            answer=response.response,
            shown=sources,
            usage=(1_000 + len(ANSWER), len(ANSWER)),
        )
        assert response.response == ANSWER
        assert [c.id for c in played.only.chunks] == [n.node.node_id for n in response.source_nodes]
        assert [c.score for c in played.only.chunks] == [n.score for n in response.source_nodes]


def rewriting(scene: Scene) -> None:
    """Let a model write more questions inside the retriever: that call is none that answers."""
    pack = QueryRewritingRetrieverPack(nodes=[TextNode(text=fact) for fact in FACTS])
    fused(scene, "query rewriting", pack, FACTS)


def hybrid(scene: Scene) -> None:
    """Do the same over a vector index and BM25."""
    fused(
        scene,
        "hybrid fusion",
        HybridFusionRetrieverPack(nodes=[TextNode(text=fact) for fact in FACTS]),
        FACTS,
    )


def fused(scene: Scene, name: str, pack: object, texts: tuple[str, ...]) -> None:
    """Run one of the two fusion packs."""
    modules = pack.get_modules()  # type: ignore[attr-defined]
    engine = modules["query_engine"]
    more = says("1. In which year was the tower built?\n2. How old is the tower?")
    found = {
        node.text
        for question in (QUESTION, *more.content.split("\n"))
        for key in ("vector_retriever", "bm25_retriever")
        if key in modules
        for node in modules[key].retrieve(question)
    }
    for way in ("run", "aquery"):
        with scene.played(f"{name} {way}", more, says(ANSWER)) as played:
            response = (
                pack.run(QUESTION)  # type: ignore[attr-defined]
                if way == "run"
                else scene.run(engine.aquery(QUESTION))
            )
        sources = [node.node.get_content() for node in response.source_nodes]
        assert in_prompt(played.chats[-1], texts) == sources
        check(
            played.only,
            played,
            query=QUESTION,
            answer=ANSWER,
            shown=sources,
            not_shown=[*found - set(sources)],
            usage=(1_000 + len(ANSWER), len(ANSWER)),
            asked=1,
        )
        assert len(played.only.retrievals) == 1, "the fused one"


def failures(scene: Scene) -> None:
    """Let the model refuse: the pack's own exception comes out, and the record says so."""
    pack = AutoMergingRetrieverPack([book()])
    with scene.played("auto-merging model fails", refused(400, "no such model")) as played:
        try:
            pack.run(QUESTION)
        except Exception as error:  # noqa: BLE001 - whatever the client raises
            raised = f"{type(error).__name__}: {error}"
    assert played.only.status == "error", played.only.status
    assert played.only.error == raised
    assert played.only.chunks, "what it was to answer from"
    assert not played.only.answer


if __name__ == "__main__":
    with opened(instrument, uninstrument) as scene:
        auto_merging(scene)
        rewriting(scene)
        hybrid(scene)
        failures(scene)
