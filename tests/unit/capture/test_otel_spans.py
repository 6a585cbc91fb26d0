"""Reading the spans of three dialects; the shapes are those that the instrumentations wrote."""

import json
from dataclasses import replace
from itertools import count
from zlib import crc32

import pytest
from opentelemetry.trace import SpanContext, TraceFlags, format_span_id

from ragmonitor.capture.span_readers import steps, texts
from ragmonitor.capture.span_readers.spans import SpanRecord, with_contents
from ragmonitor.capture.span_readers.trees import JoinedTrace
from ragmonitor.records import Usage

LANGCHAIN_OI = "openinference.instrumentation.langchain"
LLAMA_OI = "openinference.instrumentation.llama_index"
LANGCHAIN_OL = "opentelemetry.instrumentation.langchain"
LANGCHAIN_GENAI = "opentelemetry.instrumentation.genai.langchain"
QUESTION = "How often is the pump serviced?"
ANSWER = "Every six months."
TEXTS = ("Serviced every six months.", "The pump is blue.")

FOUND = json.dumps([{"id": "1", "content": TEXTS[0]}])

LEAF = ("RETRIEVER", "LLM", "TOOL", "RERANKER", "chat", "retrieval", "vector_db_retrieve", "task")

_times = count(1_000)


def context_of(name):
    """Return the context of a span that tests call by a name; None: there is no such span."""
    flags = TraceFlags(TraceFlags.SAMPLED)
    return SpanContext(1, crc32(name.encode()), False, flags) if name else None


def id_of(name):
    return format_span_id(context_of(name).span_id)


def span(span_id, parent_id="", *, scope="", name="x", at=None, ended=True, **attributes):
    """Return a span; dots in attributes are written as `__`.

    What stands around others lasts long, the others ten nanoseconds.
    """
    started = next(_times) * 100 if at is None else at
    lasts = 10 if at is not None or any(v in LEAF for v in attributes.values()) else 10**6
    fields = {
        key: attributes.pop(key)
        for key in ("has_failed", "status_text", "is_whole", "max_text")
        if key in attributes
    }
    return SpanRecord(
        span_id=span_id,
        parent_id=parent_id,
        context=context_of(span_id),
        parent=context_of(parent_id),
        name=name,
        scope=scope,
        attributes={key.replace("__", "."): value for key, value in attributes.items()},
        started_ns=started,
        ended_ns=started + lasts if ended else 0,
        **fields,
    )


def oi(span_id, parent_id="", kind="CHAIN", *, scope=LANGCHAIN_OI, **attributes):
    return span(span_id, parent_id, scope=scope, openinference__span__kind=kind, **attributes)


def documents(*chunk_texts, prefix="retrieval.documents"):
    return {
        f"{prefix}.{n}.document.content".replace(".", "__"): text
        for n, text in enumerate(chunk_texts)
    }


def messages(side, *pairs):
    found = {}
    for n, (role, text) in enumerate(pairs):
        found[f"llm__{side}_messages__{n}__message__role"] = role
        found[f"llm__{side}_messages__{n}__message__content"] = text
    return found


def oi_story(**changes):
    prompt = "\n".join((*TEXTS, QUESTION))
    spans = {
        "root": oi("root", input__value=QUESTION, output__value=ANSWER, name="qa"),
        "found": oi("found", "root", "RETRIEVER", input__value=QUESTION, **documents(*TEXTS)),
        "model": oi(
            "model",
            "root",
            "LLM",
            **messages("input", ("user", prompt)),
            **messages("output", ("assistant", ANSWER)),
            llm__token_count__prompt=20,
            llm__token_count__completion=4,
        ),
    }
    spans.update(changes)
    return [each for each in spans.values() if each is not None]


def only(spans, **kwargs):
    (finished,) = JoinedTrace(spans, **kwargs).interactions()
    assert finished.is_interaction()
    return finished.interaction()


# --- which dialect ------------------------------------------------------------------------------


def genai_step(of):
    """Return what a span of GenAI's says."""
    return steps.step_of(of).filled()


# --- OpenInference ------------------------------------------------------------------------------


def test_the_callers_span_is_the_roots_parent():
    """A server's request span above the root is the caller, and no part of the interaction."""
    server = span("server", scope="http")
    found = only([server, *oi_story(root=oi("root", "server", input__value=QUESTION))])
    assert found.caller.span_id == id_of("server")
    assert found.target.span_id == id_of("root")


def test_what_a_model_reasons_is_no_answer():
    """OpenAI's Responses API: reasoning is a message, or a part of one, of its own type."""
    said = messages("output", ("assistant", "")) | {
        "llm__output_messages__0__message__contents__0__message_content__type": "reasoning",
        "llm__output_messages__0__message__contents__0__message_content__text": "It may be blue.",
        "llm__output_messages__1__message__role": "assistant",
        "llm__output_messages__1__message__contents__1__message_content__text": " six months.",
        "llm__output_messages__1__message__contents__1__message_content__type": "text",
        "llm__output_messages__1__message__contents__0__message_content__text": "Every",
    }
    del said["llm__output_messages__0__message__content"]
    thinking = dict(said)
    del thinking["llm__output_messages__1__message__contents__1__message_content__text"]
    del thinking["llm__output_messages__1__message__contents__0__message_content__text"]
    spans = [
        oi("root", input__value=QUESTION),
        oi("search", "root", "RETRIEVER", **documents(*TEXTS)),
        oi("think", "root", "LLM", **thinking),
        oi("answer", "root", "LLM", **said),
    ]
    assert [g.output for g in only(spans).generations] == ["", ANSWER]


def test_a_langchain_root_that_ends_before_its_model_was_cut_short():
    """Its streams end last, unless whoever reads them closes them."""
    root = oi("root", input__value=QUESTION, output__value="null", at=100)
    model = oi("model", "root", "LLM", at=500, **messages("output", ("assistant", ANSWER)))
    assert only(oi_story(root=root, model=model)).status == "partial"


def test_nested_retriever_spans_are_one_retrieval():
    """LlamaIndex's `retrieve` has the documents, the `_retrieve` in it their reprs."""
    inner = oi(
        "inner",
        "found",
        "RETRIEVER",
        output__value='["<NodeWithScore(node=TextNode(id_=n0))>"]',
        output__mime_type="application/json",
    )
    assert len(only(oi_story(inner=inner)).retrievals) == 1


def test_a_provider_span_below_a_models_span_is_the_same_call():
    """Counted once; each says what the other lacks."""
    outer = oi("model", "root", "LLM", **messages("output", ("assistant", ANSWER)))
    provider = span(
        "provider",
        "model",
        scope="opentelemetry.instrumentation.genai.openai",
        gen_ai__operation__name="chat",
        gen_ai__request__model="m-1",
        gen_ai__usage__input_tokens=20,
        gen_ai__usage__output_tokens=4,
    )
    found = only(oi_story(model=outer, provider=provider))
    (generation,) = found.generations
    assert (generation.output, generation.model) == (ANSWER, "m-1")
    assert found.usage == Usage(input_tokens=20, output_tokens=4)


def test_a_provider_span_beside_the_models_span_is_the_same_call():
    """OpenLLMetry does not make its model's span current: the provider's is its sibling."""
    workflow = span("root", scope=LANGCHAIN_OL, traceloop__span__kind="workflow", at=100)
    retriever = ol_retriever("root", at=110)
    model = ol_model("root", at=200)
    provider = span(
        "provider",
        "root",
        scope="opentelemetry.instrumentation.genai.openai",
        gen_ai__operation__name="chat",
        gen_ai__usage__input_tokens=20,
        at=205,
    )
    found = only([workflow, retriever, model, provider])
    assert len(found.generations) == 1
    assert found.usage.input_tokens == 20


def test_documents_that_the_span_had_no_room_for_are_missed():
    """The SDK drops the oldest attributes: the first document is gone."""
    found = oi(
        "found",
        "root",
        "RETRIEVER",
        retrieval__documents__1__document__content=TEXTS[1],
        is_whole=False,
    )
    assert only(oi_story(found=found)).capture_incomplete


def test_a_cut_dump_beside_whole_texts_is_no_loss():
    """OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT: the JSON of all documents is long. One may be empty."""
    whole = documents(*TEXTS, "") | {"output__mime_type": "application/json"}
    dump = json.dumps({"documents": [*TEXTS]})[:40]
    found = oi("found", "root", "RETRIEVER", output__value=dump, **whole, max_text=40)
    record = only(oi_story(found=found))
    assert ([c.text for c in record.chunks], record.capture_incomplete) == ([*TEXTS, ""], False)
    cut = oi("found", "root", "RETRIEVER", **documents("x" * 50), max_text=50)
    assert only(oi_story(found=cut)).capture_incomplete


def test_a_framework_s_store_alone_is_a_retrieval():
    """Of a search that a retriever reports, too, the store's span is the second."""
    store = span("found", "root", scope=LANGCHAIN_GENAI, gen_ai__retrieval__documents=FOUND)
    assert len(only(oi_story(found=store)).retrievals) == 1


def test_a_retriever_that_says_nothing_gives_way_to_one_in_it():
    """A wrapping retriever without documents is a step."""
    outer = oi("outer", "root", "RETRIEVER", input__value=QUESTION)
    found = oi("found", "outer", "RETRIEVER", **documents(*TEXTS))
    record = only(oi_story(outer=outer, found=found))
    assert ([c.text for c in record.chunks], record.capture_incomplete) == ([*TEXTS], False)


def test_a_fault_in_reading_one_span_costs_no_other(monkeypatch):
    """The record is incomplete, and keeps what the other spans say."""
    fill = steps.fill
    monkeypatch.setattr(steps, "fill", lambda s: s.name / 0 if s.role == "other" else fill(s))
    record = only(oi_story(extra=oi("extra", "root", "GUARDRAIL")))
    assert record.capture_incomplete
    assert (record.query, record.answer, len(record.chunks)) == (QUESTION, ANSWER, 2)


@pytest.mark.parametrize(
    ("text", "status"),
    [("GeneratorExit()Traceback ...", "partial"), ("CancelledError()Traceback ...", "cancelled")],
)
def test_what_ends_a_request_from_outside_is_no_error(text, status):
    """Of these OpenInference writes no event, only the repr in front of the trace."""
    root = oi("root", input__value=QUESTION, has_failed=True, status_text=text)
    assert only(oi_story(root=root)).status == status


RESULTS = [{"url": "u", "content": text} for text in TEXTS]


@pytest.mark.parametrize(
    ("output", "found"),
    [
        (RESULTS, [*TEXTS]),
        ({"query": QUESTION, "results": RESULTS}, [*TEXTS]),
        ([*TEXTS], ["\n".join(TEXTS)]),
        ({"content": [{"type": "text", "text": t} for t in TEXTS]}, ["\n".join(TEXTS)]),
    ],
    ids=["list", "dict", "texts", "parts"],
)
def test_search_results_of_a_retrieval_tool_are_chunks(output, found):
    """What a tool gave as JSON, without a message around it, in either convention."""
    written = json.dumps(output)
    as_oi = oi(
        "found",
        "root",
        "TOOL",
        name="web_search",
        output__value=written,
        output__mime_type="application/json",
    )
    as_genai = span(
        "found",
        "root",
        gen_ai__operation__name="execute_tool",
        gen_ai__tool__name="web_search",
        gen_ai__tool__call__result=written,
    )
    for tool in (as_oi, as_genai):
        record = only(oi_story(found=tool), is_retrieval_tool=lambda name: "search" in name)
        assert [c.text for c in record.retrievals[0].chunks] == found


def test_documents_that_a_tool_returns_are_what_it_retrieved():
    """A LangChain tool that a node calls by itself, whatever it is called."""
    found = [{"page_content": text, "metadata": {}, "type": "Document"} for text in TEXTS]
    tool = oi(
        "found",
        "root",
        "TOOL",
        name="notes",
        output__value=json.dumps(found),
        output__mime_type="application/json",
    )
    as_genai = span(
        "found",
        "root",
        gen_ai__operation__name="execute_tool",
        gen_ai__tool__name="notes",
        gen_ai__tool__call__result=json.dumps(found),
    )
    for each in (tool, as_genai):
        assert [c.text for c in only(oi_story(found=each)).chunks] == [*TEXTS]


# --- OpenLLMetry --------------------------------------------------------------------------------


def ol_retriever(parent_id, **changes):
    docs = [{"page_content": text, "metadata": {}} for text in TEXTS]
    return span(
        "found",
        parent_id,
        scope=LANGCHAIN_OL,
        **{
            "gen_ai__operation__name": "vector_db_retrieve",
            "traceloop__span__kind": "task",
            "traceloop__entity__name": "Notes",
            "traceloop__entity__input": json.dumps({"query": QUESTION}),
            "traceloop__entity__output": json.dumps({"documents": docs, "count": 2}),
        }
        | changes,
    )


def ol_model(parent_id, **changes):
    asked = [{"role": "user", "parts": [{"type": "text", "content": " ".join(TEXTS)}]}]
    said = [{"role": "assistant", "parts": [{"type": "text", "content": ANSWER}]}]
    return span(
        "model",
        parent_id,
        scope=LANGCHAIN_OL,
        **{
            "gen_ai__operation__name": "chat",
            "traceloop__workflow__name": "qa",
            "gen_ai__request__model": "unknown",
            "traceloop__association__properties__ls_model_name": "m-1",
            "gen_ai__input__messages": json.dumps(asked),
            "gen_ai__output__messages": json.dumps(said),
        }
        | changes,
    )


def ol_root(given, gave, **changes):
    return span(
        "root",
        scope=LANGCHAIN_OL,
        **{
            "traceloop__span__kind": "workflow",
            "gen_ai__operation__name": "invoke_agent",
            "traceloop__entity__name": "qa",
            "traceloop__association__properties__session_id": "s1",
            "traceloop__entity__input": json.dumps(given),
            "traceloop__entity__output": json.dumps(gave),
        }
        | changes,
    )


def test_a_graphs_own_span_gives_way_to_the_workflow_in_it():
    """`invoke_agent LangGraph` carries no texts; it is the interaction's root all the same."""
    graph = span("graph", scope=LANGCHAIN_OL, gen_ai__operation__name="invoke_agent")
    given = {"inputs": {"messages": [["user", QUESTION]]}}
    root = ol_root(given, {"outputs": {}})
    root = SpanRecord(**{f: getattr(root, f) for f in root.__slots__} | {"parent_id": "graph"})
    found = only([graph, root, ol_retriever("root"), ol_model("root")])
    assert (found.query, found.target.span_id) == (QUESTION, id_of("graph"))


def db_result(number, text, **fields):
    """Return an event of OpenLLMetry's with a document that a vector store found."""
    return "db.query.result", {
        "db.query.result.id": f"d{number}",
        "db.query.result.score": 0.5,
        "db.query.result.document": text,
    } | fields


def test_a_clients_span_beside_the_retrievers_is_the_same_search():
    """OpenLLMetry does not make LangChain's spans the current ones; it is no second retrieval."""
    attributes = with_contents({}, [db_result(n, text) for n, text in enumerate(TEXTS)])
    root = ol_root({"inputs": QUESTION}, {"outputs": ANSWER})
    framework = replace(ol_retriever("root"), started_ns=2_000, ended_ns=2_900)
    client = replace(
        span("client", "root"), attributes=attributes, started_ns=2_100, ended_ns=2_800
    )
    found = only([replace(root, started_ns=0), framework, client, ol_model("root")])
    assert len(found.retrievals) == 1
    assert [c.text for c in found.chunks] == list(TEXTS)


def test_a_search_of_the_applications_beside_the_retriever_is_one_of_its_own():
    """Two searches at once, under spans of a convention: both were retrieved."""
    root = oi("root", input__value=QUESTION, output__value=ANSWER)
    framework = oi("found", "root", "RETRIEVER", **documents(TEXTS[0]))
    own = oi("own", "root", "RETRIEVER", scope="shop", **documents(TEXTS[1]))
    found = only(
        [
            replace(root, started_ns=0),
            replace(framework, started_ns=2_000, ended_ns=2_900),
            replace(own, started_ns=2_100, ended_ns=2_800),
            oi("model", "root", "LLM"),
        ]
    )
    assert len(found.retrievals) == 2


def test_what_a_tool_gave_may_stand_in_its_spans_events():
    """As Strands writes it: the tool's input as its message, and its text as a choice."""
    events = [
        ("gen_ai.tool.message", {"content": json.dumps({"query": QUESTION}), "id": "c1"}),
        ("gen_ai.choice", {"message": json.dumps([{"text": TEXTS[0]}]), "id": "c1"}),
    ]
    tool = span("tool", gen_ai__operation__name="execute_tool", gen_ai__tool__name="retrieve")
    told = replace(tool, attributes=with_contents(dict(tool.attributes), events))
    assert genai_step(told).answer == TEXTS[0]


def node(text, node_id, score):
    return json.dumps({"node": {"id_": node_id, "text": text, "metadata": {}}, "score": score})


# --- GenAI --------------------------------------------------------------------------------------


def said(role, text):
    return json.dumps([{"role": role, "parts": [{"type": "text", "content": text}]}])


def genai_story(documents='[{"id":"d0","score":0.9},{"id":"d1"}]', asked=None, **variables):
    # The attributes of a span in order of the operation's steps.
    return [
        span("root", scope=LANGCHAIN_GENAI, gen_ai__operation__name="invoke_workflow"),
        span(
            "found",
            "root",
            scope=LANGCHAIN_GENAI,
            gen_ai__operation__name="retrieval",
            gen_ai__retrieval__query__text=QUESTION,
            **({"gen_ai__retrieval__documents": documents} if documents else {}),
        ),
        span(
            "model",
            "root",
            scope=LANGCHAIN_GENAI,
            gen_ai__operation__name="chat",
            gen_ai__output__messages=said("assistant", ANSWER),
            **({"gen_ai__input__messages": said("user", asked)} if asked else {}),
            **{f"gen_ai__prompt__variable__{name}": text for name, text in variables.items()},
        ),
    ]


def test_a_context_that_does_not_fall_into_its_documents_is_one_chunk():
    """No boundary is guessed."""
    found = only(genai_story(context=", ".join(TEXTS), question=QUESTION))
    assert [(c.id, c.text) for c in found.chunks] == [("", ", ".join(TEXTS))]


def test_texts_that_came_as_lists_and_maps_are_read():
    """OTLP can carry them so, and the conventions allow it."""
    tool = span(
        "found",
        "root",
        gen_ai__operation__name="execute_tool",
        gen_ai__tool__name="web_search",
        gen_ai__tool__call__result=[{"content": text} for text in TEXTS],
    )
    asked = [{"role": "user", "parts": [{"type": "text", "content": QUESTION}]}]
    said = [{"role": "assistant", "parts": [{"type": "text", "content": ANSWER}]}]
    model = span(
        "model",
        "root",
        gen_ai__operation__name="chat",
        gen_ai__system_instructions=[{"type": "text", "content": "Be brief."}],
        gen_ai__input__messages=asked,
        gen_ai__output__messages=said,
    )
    root = span("root", gen_ai__operation__name="invoke_agent", gen_ai__input__messages=asked)
    record = only([root, tool, model], is_retrieval_tool=lambda name: "search" in name)
    assert [c.text for c in record.retrievals[0].chunks] == ["\n".join(TEXTS)]
    assert [m.text for m in record.generations[0].input] == ["Be brief.", QUESTION]
    assert (record.query, record.answer) == (QUESTION, ANSWER)


def test_an_agent_that_ends_with_a_list_that_calls_tools_has_not_answered():
    """As where the list is a text: the words beside the call are a step's."""
    said = [
        {"role": "assistant", "parts": [{"type": "text", "content": "One moment."}]},
        {"role": "assistant", "parts": [{"type": "tool_call", "name": "search"}]},
    ]
    agent = {"gen_ai__operation__name": "invoke_agent"}
    answers = [
        genai_step(span("root", **agent, gen_ai__output__messages=value)).answer
        for value in (said, json.dumps(said))
    ]
    assert answers == ["", ""]


# --- which spans belong together ----------------------------------------------------------------


def test_two_trees_under_one_request_are_two_interactions():
    """Each outermost span of a dialect is one."""
    other = [
        oi("root2", "server", input__value="2?", output__value="2"),
        oi("found2", "root2", "RETRIEVER", **documents("two")),
        oi("model2", "root2", "LLM", **messages("output", ("assistant", "2"))),
    ]
    server = span("server")
    spans = [server, *other, *oi_story(root=oi("root", "server", output__value="1"))]
    assert [f.root.span_id for f in JoinedTrace(spans).interactions()] == ["root2", "root"]


def test_a_search_and_a_model_call_are_held_together_by_the_applications_span():
    """The innermost span that encloses both stands for the interaction."""
    spans = [
        span("server"),
        span("answer", "server", name="answer"),
        span("step", "answer"),
        oi("found", "step", "RETRIEVER", input__value=QUESTION, **documents(*TEXTS)),
        oi("model", "answer", "LLM", **messages("output", ("assistant", ANSWER))),
    ]
    found = only(spans)
    assert (found.query, found.answer) == (QUESTION, ANSWER)
    assert (found.target.span_id, found.caller.span_id) == (id_of("answer"), id_of("server"))
    assert found.framework == "openinference"


def test_a_model_call_before_the_search_is_not_its_answer():
    """In turn: first something is found, then a model is asked."""
    spans = [
        span("server"),
        oi("model", "server", "LLM", **messages("output", ("assistant", ANSWER))),
        oi("found", "server", "RETRIEVER", **documents(*TEXTS)),
    ]
    assert JoinedTrace(spans).interactions() == []


def test_what_lies_below_an_open_span_of_a_dialect_waits():
    """Its root has not ended."""
    spans = oi_story(root=None)
    assert JoinedTrace(spans, [oi("root", ended=False)]).interactions() == []


def test_an_agents_question_is_what_it_asked_its_model_first():
    """LlamaIndex's workflows are given events, of which OpenInference writes the repr."""
    spans = [
        oi(
            "root", scope=LLAMA_OI, input__value="Start()", output__value="StopEvent(result=A(b=1))"
        ),
        oi("first", "root", "LLM", scope=LLAMA_OI, **messages("input", ("user", QUESTION))),
        oi("found", "root", "RETRIEVER", scope=LLAMA_OI, input__value="2?", **documents(*TEXTS)),
        oi("model", "root", "LLM", scope=LLAMA_OI, output__value=f"assistant: {ANSWER}"),
    ]
    record = only(spans)
    assert (record.query, record.answer) == (QUESTION, ANSWER)


# --- shapes of texts ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "value",
    [
        QUESTION,
        {"input": QUESTION},
        {"messages": [["user", QUESTION]]},
        {"messages": [{"type": "human", "data": {"content": QUESTION}}]},
        {"query_bundle": {"query_str": QUESTION, "embedding": None}},
        {"message": QUESTION},
        [{"role": "user", "parts": [{"type": "text", "content": QUESTION}]}],
    ],
)
def test_questions_are_found_in_every_shape(value):
    """A text, an input dict, messages, a query bundle."""
    assert texts.question(value) == QUESTION


@pytest.mark.parametrize(
    "value",
    [
        ANSWER,
        {"response": ANSWER, "source_nodes": ["<NodeWithScore>"]},
        {"generations": [[{"text": ANSWER, "generation_info": None}]]},
        {"message": {"role": "assistant", "blocks": [{"block_type": "text", "text": ANSWER}]}},
        {"lc": 1, "kwargs": {"type": "ai", "content": ANSWER}},
    ],
)
def test_answers_are_found_in_every_shape(value):
    """A text, an output dict, messages, generations, a graph's command."""
    assert texts.answer(value) == ANSWER


@pytest.mark.parametrize(
    "value",
    [
        "<generator object>",
        "StopEvent(result=AgentOutput(response=ChatMessage(role=<MessageRole.ASSISTANT: 'assi...",
        {"score": 1},
        "null",
    ],
)
def test_what_is_no_answer_is_none(value):
    """Reprs, nothing, and structures without a text."""
    assert texts.answer(texts.parsed(value) if isinstance(value, str) else value) == ""


def test_an_earlier_answer_is_not_this_one():
    """A model's text before the user's last message belongs to another question."""
    history = [{"role": "assistant", "content": "old"}, {"role": "user", "content": "new?"}]
    assert texts.answer(history) == ""
