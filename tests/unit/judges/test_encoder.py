"""Encoders as judges, with real models that are small enough to build here."""

import os
import pickle
import sys
from pathlib import Path

import pytest

from ragmonitor import ExportSettings, JudgeSettings, Monitor
from ragmonitor.capabilities import as_judge
from ragmonitor.errors import JudgeError, MissingExtraError
from ragmonitor.judges.encoder import EncoderJudge, _labels, _TokenReader
from ragmonitor.judges.encoder_models import Logits, Model
from ragmonitor.judges.sentences import split
from ragmonitor.records import Cause, Verdict
from ragmonitor.testing import ListExporter
from tests.support.helper_pids import helper_pid
from tests.support.stories import interaction

VOCABULARY = (
    "[PAD] [UNK] [CLS] [SEP] [MASK] the tower is red tall old purple and it was built paris "
    "in . , : ? ! < > 塔 是 红 色 的 紫 它 很 高 。 ？"
)
WORDS = VOCABULARY.split()
SUPPORTED, ABSENT = Verdict.SUPPORTED, Verdict.ABSENT


@pytest.fixture(scope="module")
def libraries():
    return pytest.importorskip("torch"), pytest.importorskip("transformers")


def tiny(libraries, folder, kind, names, *, positions=512):
    """Save a BERT that objects to the word `purple`, wherever it stands, and return its folder.

    One layer whose attention is the same everywhere, so that [CLS] holds the mean of the words;
    all words are zero but that one.
    """
    torch, transformers = libraries
    vocabulary = folder / "vocab.txt"
    vocabulary.write_text("\n".join(WORDS), encoding="utf-8")
    tokenizer = transformers.BertTokenizerFast(
        vocab=str(vocabulary), vocab_file=str(vocabulary), model_max_length=positions
    )
    config = transformers.BertConfig(
        vocab_size=len(WORDS),
        hidden_size=16,
        num_hidden_layers=0 if kind == "tokens" else 1,
        num_attention_heads=1,
        intermediate_size=16,
        max_position_embeddings=positions,
        num_labels=len(names),
        id2label=dict(enumerate(names)),
        label2id={name: at for at, name in enumerate(names)},
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    )
    make = (
        transformers.BertForTokenClassification
        if kind == "tokens"
        else transformers.BertForSequenceClassification
    )
    model = make(config)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
        embeddings = model.bert.embeddings
        for word in ("purple", "紫"):
            embeddings.word_embeddings.weight[WORDS.index(word), 0] = 1.0
        embeddings.LayerNorm.weight.fill_(1.0)
        for layer in model.bert.encoder.layer:
            layer.attention.self.value.weight.copy_(torch.eye(16))
            layer.attention.output.dense.weight.copy_(torch.eye(16))
            layer.attention.output.LayerNorm.weight.fill_(1.0)
            layer.output.LayerNorm.weight.fill_(1.0)
        if model.bert.pooler is not None:
            model.bert.pooler.dense.weight.copy_(torch.eye(16))
        bad = next(at for at, name in enumerate(names) if not is_good(name))
        good = next((at for at, name in enumerate(names) if is_good(name)), None)
        model.classifier.weight[bad, 0] = -10.0 if good is None else 10.0
        model.classifier.bias[bad if good is None else good] = 5.0 if good is None else 3.0
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return str(folder)


def exported(libraries, folder):
    """Write a saved model as ONNX into a folder of its own, as `optimum-cli export onnx` does."""
    torch, transformers = libraries
    target = Path(f"{folder}-onnx")
    target.mkdir()
    for name in ("config.json", "tokenizer.json", "tokenizer_config.json"):
        (target / name).write_bytes(Path(folder, name).read_bytes())
    config = transformers.AutoConfig.from_pretrained(folder)
    auto = getattr(transformers, config.architectures[0])
    model = auto.from_pretrained(folder).eval()
    encoded = transformers.AutoTokenizer.from_pretrained(folder)(
        ["the tower"], ["it is purple"], return_tensors="pt"
    )
    names = list(encoded)

    class Positional(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.model = model

        def forward(self, *inputs):
            return self.model(**dict(zip(names, inputs, strict=True))).logits

    torch.onnx.export(
        Positional(),
        tuple(encoded.values()),
        str(target / "model.onnx"),
        input_names=names,
        output_names=["logits"],
        dynamic_axes={name: {0: "batch", 1: "length"} for name in names} | {"logits": {0: "batch"}},
        dynamo=False,
    )
    return str(target)


def is_good(name):
    return name in ("entailment", "consistent", "LABEL_0", "supported")


@pytest.fixture(scope="module")
def pairs(libraries, tmp_path_factory):
    folder = tmp_path_factory.mktemp("pairs")
    return tiny(libraries, folder, "pairs", ["entailment", "neutral", "contradiction"])


@pytest.fixture(scope="module")
def tokens(libraries, tmp_path_factory):
    return tiny(libraries, tmp_path_factory.mktemp("tokens"), "tokens", ["LABEL_0", "LABEL_1"])


@pytest.fixture(scope="module")
def onnx_pairs(libraries, pairs):
    pytest.importorskip("onnxruntime")
    return exported(libraries, pairs)


@pytest.fixture(scope="module")
def onnx_tokens(libraries, tokens):
    pytest.importorskip("onnxruntime")
    return exported(libraries, tokens)


def told(answer, *texts):
    texts = texts or ("the tower is tall", "the tower was built in paris")
    return interaction(query="is it red ?", texts=texts, answer=answer)


ANSWER = "The tower is red and tall. It is purple."


async def test_sentences_are_classified_against_chunks(pairs):
    """Each on its own; what the model objects to is absent, with its share."""
    found = await EncoderJudge(pairs).assess(told(ANSWER))
    assert [s.verdict for s in found.sentences] == [SUPPORTED, ABSENT]
    good, bad = (s.support for s in found.sentences)
    assert good > 0.5 > bad
    assert found.risk == pytest.approx(1 - bad)
    assert found.judge.name == pairs


async def test_a_chunk_that_bears_a_sentence_is_cited(pairs):
    """And one that does not is not."""
    found = await EncoderJudge(pairs).assess(
        told("The tower is red.", "the tower is purple", "the tower is old")
    )
    assert found.sentences[0].chunks == (1,)


async def test_tokens_are_classified_and_named(tokens):
    """The words that the model objects to stand as in the answer; the rest is supported."""
    found = await EncoderJudge(tokens).assess(told(ANSWER))
    assert [s.verdict for s in found.sentences] == [SUPPORTED, ABSENT]
    assert [s.words for s in found.sentences] == [(), ("purple",)]
    assert found.risk > 0.5


async def test_a_device_that_is_not_there_is_said(libraries, pairs):
    """By the name that was given, as an error that says so, and not as torch's own."""
    torch, _ = libraries
    for device in ("gpu", *(() if torch.cuda.is_available() else ("cuda",))):
        with pytest.raises(JudgeError, match=f"cannot be loaded: device '{device}'") as failure:
            await EncoderJudge(pairs, device=device).prepare()
        assert failure.value.cause is Cause.JUDGE_ERROR


@pytest.mark.parametrize("kind", ["pairs", "tokens"])
def test_an_accelerator_says_what_the_processor_says(libraries, request, kind):
    """Verdicts and words alike, shares to float precision; where the machine has one."""
    torch, _ = libraries
    if not torch.cuda.is_available():
        pytest.skip("needs a GPU that torch can use")
    folder = request.getfixturevalue(kind)
    answers = [told(ANSWER), told("It is purple purple, and purple tall."), told("It is red.")]
    first = EncoderJudge(folder).read_batch(answers)
    for one, other in zip(
        first, EncoderJudge(folder, device="cuda").read_batch(answers), strict=True
    ):
        assert other.risk == pytest.approx(one.risk, abs=1e-4)
        assert [(s.verdict, s.words, s.chunks) for s in other.sentences] == [
            (s.verdict, s.words, s.chunks) for s in one.sentences
        ]


def test_inputs_that_an_accelerator_lacks_memory_for_are_read_in_fewer_at_once(monkeypatch):
    """One input that fails alone costs its own answer, and no other of the batch."""
    asked = []

    class Scarce:
        window, kind, labels, predict = 64, "pairs", {0: "entailment", 1: "other"}, None

        def logits(self, pairs, _truncation):
            asked.append(len(pairs))
            if len(pairs) > 2 or any("purple" in claim for _, claim in pairs):
                raise RuntimeError("CUDA out of memory. Tried to allocate 2.00 GiB")
            return [Logits(rows=(5.0, 0.0), spans=(), texts=()) for _ in pairs]

    monkeypatch.setattr("ragmonitor.judges.encoder.load_model", lambda *_, **__: Scarce())
    fine, bad = told("The tower is red."), told("The tower is purple.")
    outcomes = EncoderJudge("m").read_batch([fine, bad, fine, fine])
    assert max(asked) > 2
    assert [outcomes[at].sentences[0].verdict for at in (0, 2, 3)] == [SUPPORTED] * 3
    assert isinstance(outcomes[1], JudgeError)
    assert outcomes[1].cause is Cause.JUDGE_ERROR
    assert "CUDA out of memory" in str(outcomes[1])


async def test_neighbouring_tokens_are_one_piece(tokens):
    """As long as only space is between them."""
    found = await EncoderJudge(tokens).assess(told("It is purple purple, and purple tall."))
    assert found.sentences[0].words == ("purple purple", "purple")


def test_a_token_with_the_space_before_it_belongs_to_the_sentence_behind():
    """Offsets of ModernBERT's tokenizer begin at the space: a sentence's first word counts."""
    answer = "It is red. Purple too."
    model = Model(kind="tokens", labels={}, window=64, logits=lambda _pairs, _truncation: [])
    reader = _TokenReader("m", model=model, threshold=0.5)
    risks = {(0, 2): 0.1, (2, 5): 0.1, (5, 9): 0.1, (9, 10): 0.1, (10, 17): 0.9, (17, 21): 0.1}
    first, second = reader.supports(interaction(answer=answer), split(answer), [risks])
    assert first.share == pytest.approx(0.9)
    assert second.share == pytest.approx(0.1)
    assert second.words == ("Purple",)


@pytest.mark.parametrize("kind", ["pairs", "tokens"])
async def test_long_evidence_is_read_in_windows(libraries, tmp_path, kind):
    """What does not fit the model's window is read in several; no sentence is left out."""
    names = ["LABEL_0", "LABEL_1"] if kind == "tokens" else ["consistent", "other"]
    folder = tiny(libraries, tmp_path, kind, names, positions=256)
    long = ["the tower is old and tall . " * 60] * 3
    found = await EncoderJudge(folder).assess(told(ANSWER, *long))
    assert [s.verdict for s in found.sentences] == [SUPPORTED, ABSENT]


async def test_an_answer_longer_than_the_window_is_too_long(tokens):
    """With its cause; a cut answer would be half judged."""
    with pytest.raises(JudgeError) as caught:
        await EncoderJudge(tokens).assess(told("The tower is red. " * 300))
    assert caught.value.cause is Cause.EVIDENCE_TOO_LONG


async def test_one_score_is_a_share(libraries, tmp_path):
    """A cross-encoder with a single output: its sigmoid."""
    folder = tiny(libraries, tmp_path, "pairs", ["score"])
    found = await EncoderJudge(folder).assess(told(ANSWER))
    assert [s.verdict for s in found.sentences] == [SUPPORTED, ABSENT]


async def test_what_claims_nothing_is_not_asked_about(pairs):
    """Questions and courtesies are told by the built-in judge, refusals too."""
    found = await EncoderJudge(pairs).assess(told("Would you like to see it? The tower is red."))
    assert [s.verdict for s in found.sentences] == [Verdict.NO_CLAIM, SUPPORTED]
    assert (await EncoderJudge(pairs).assess(told("I don't know."))).evasive


async def test_no_chunks_bear_nothing(pairs):
    """Every claim is absent."""
    answer = interaction(query="is it red ?", texts=(), answer="The tower is red.")
    (sentence,) = (await EncoderJudge(pairs).assess(answer)).sentences
    assert (sentence.verdict, sentence.support) == (ABSENT, 0.0)


async def test_the_threshold_is_part_of_the_ruler(pairs):
    """Another one gives other verdicts, and another version."""
    strict = EncoderJudge(pairs, threshold=0.999)
    assert (await strict.assess(told("The tower is red."))).sentences[0].verdict is ABSENT
    assert strict.identity != EncoderJudge(pairs).identity


async def test_a_model_that_is_not_there_says_so(libraries, tmp_path):
    """One error, with the reason in one line; so for a model of another kind."""
    with pytest.raises(JudgeError, match="cannot be loaded"):
        await EncoderJudge(str(tmp_path / "nowhere")).prepare()
    _, transformers = libraries
    transformers.BertModel(
        transformers.BertConfig(
            vocab_size=9, hidden_size=8, num_hidden_layers=0, num_attention_heads=1
        )
    ).save_pretrained(tmp_path)
    with pytest.raises(JudgeError, match="classifies neither pairs nor tokens"):
        await EncoderJudge(str(tmp_path)).prepare()


@pytest.mark.filterwarnings("ignore")  # of torch's exporter
@pytest.mark.parametrize("kind", ["pairs", "tokens"])
async def test_onnx_finds_what_torch_finds(request, kind, monkeypatch):
    """By ONNX Runtime and `tokenizers` alone, where the folder has a file for it."""
    here, there = (request.getfixturevalue(name) for name in (kind, f"onnx_{kind}"))
    answers = [
        told(ANSWER),
        told("The tower is tall."),
        told("它是紫色的。塔很高。", "塔是红色的。"),
    ]
    expected = EncoderJudge(here).read_batch(answers)
    monkeypatch.setitem(sys.modules, "torch", None)
    monkeypatch.setitem(sys.modules, "transformers", None)
    for one, other in zip(expected, EncoderJudge(there).read_batch(answers), strict=True):
        assert [s.verdict for s in one.sentences] == [s.verdict for s in other.sentences]
        assert [s.words for s in one.sentences] == [s.words for s in other.sentences]
        assert one.risk == pytest.approx(other.risk, abs=1e-5)


async def test_a_broken_onnx_file_says_so(tmp_path):
    """In one line, as every model that cannot be loaded."""
    pytest.importorskip("onnxruntime")
    (tmp_path / "model.onnx").write_bytes(b"no model")
    (tmp_path / "config.json").write_text('{"architectures": ["BertForTokenClassification"]}')
    with pytest.raises(JudgeError, match="cannot be loaded"):
        await EncoderJudge(str(tmp_path)).prepare()


def test_answers_are_read_together(pairs):
    """Each as if it were alone, whatever the batch; one that does not fit costs no other."""
    answers = [told(ANSWER), told("Hello!"), told("The tower is tall.")] * 3
    alone = [EncoderJudge(pairs).read_batch([each])[0] for each in answers]
    for size in (1, 4, 64):
        found = EncoderJudge(pairs, batch_size=size).read_batch(answers)
        assert [f.risk for f in found] == pytest.approx([a.risk for a in alone])
        assert [f.sentences for f in found][1] == alone[1].sentences


def test_an_answer_too_long_costs_no_other(tokens):
    """Its place holds the error."""
    found = EncoderJudge(tokens).read_batch([told("The tower is red. " * 300), told(ANSWER)])
    assert found[0].cause is Cause.EVIDENCE_TOO_LONG
    assert [s.verdict for s in found[1].sentences] == [SUPPORTED, ABSENT]


def test_what_is_not_read_in_time_says_so(pairs):
    """No input is begun after the limit; an answer that needs none is read all the same."""
    courtesy = told("Would you like to see it?")
    late, none_needed = EncoderJudge(pairs).read_batch([told(ANSWER), courtesy], within_s=0)
    assert late.cause is Cause.JUDGE_TIMEOUT
    assert none_needed.claims == ()


@pytest.mark.parametrize("kind", ["pairs", "tokens"])
def test_chinese_by_a_multilingual_model(request, kind):
    """Characters are tokens; the words are named as they stand in the answer."""
    found = EncoderJudge(request.getfixturevalue(kind)).read_batch(
        [told("塔是红色的。它是紫色的。", "塔是红色的，它很高。")]
    )[0]
    assert found.language == "zh"
    assert [s.verdict for s in found.sentences] == [SUPPORTED, ABSENT]
    if kind == "tokens":
        assert found.sentences[1].words == ("紫",)


def test_it_travels_to_another_process_without_its_model(pairs):
    """What is loaded stays; the copy loads it again, with as many threads as it is told."""
    torch = pytest.importorskip("torch")
    judge = EncoderJudge(pairs, threads=1)
    judge.read_batch([told(ANSWER)])
    copy = pickle.loads(pickle.dumps(judge))
    assert copy.identity == judge.identity
    assert copy.read_batch([told(ANSWER)])[0].risk == judge.read_batch([told(ANSWER)])[0].risk
    assert torch.get_num_threads() == 1


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_a_monitor_has_it_read_every_answer_apart_and_so_has_a_forked_child(tokens, capfd):
    """In a helper process each; nothing of it is imported or printed where the application is."""
    reports = ListExporter()
    monitor = Monitor(
        service="test",
        server=False,
        exporters=[reports],
        export=ExportSettings(traces=False),
        judge=JudgeSettings(builtin=f"encoder:{tokens}", builtin_timeout_s=120),
    )
    with monitor:
        monitor.observe(told(ANSWER))
        assert monitor.flush(120)
        (report,) = reports.reports
        assert report.judge.name == f"builtin:{tokens}"
        assert [s.words for s in report.assessment.sentences] == [(), ("purple",)]
        helper = helper_pid(monitor._back.worker._reader)
        child = os.fork()
        if child == 0:
            code = 1
            try:
                reports.reports.clear()
                monitor.observe(told(ANSWER))
                is_flushed = monitor.flush(120)
                names = [each.judge.name for each in reports.reports]
                is_apart = helper_pid(monitor._back.worker._reader) not in {None, helper}
                code = 0 if is_flushed and is_apart and names == [report.judge.name] else 2
                monitor.close(5)
            finally:
                os._exit(code)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("role", ["builtin", "sampled"])
def test_a_monitor_uses_an_accelerator_that_the_application_uses_too(libraries, tokens, role):
    """Every answer, or the drawn ones; where the machine has one."""
    torch, _ = libraries
    if not torch.cuda.is_available():
        pytest.skip("needs a GPU that torch can use")
    assert torch.ones(8, device="cuda").sum().item() == 8
    judge = EncoderJudge(tokens, device="cuda")
    options = {
        "builtin": {"judge": JudgeSettings(builtin=judge, builtin_timeout_s=120)},
        "sampled": {"judge": judge, "sample": 1.0},
    }
    reports = ListExporter()
    traces = ExportSettings(traces=False)
    with Monitor(
        service="test", server=False, exporters=[reports], export=traces, **options[role]
    ) as monitor:
        monitor.observe(told(ANSWER))
        assert monitor.flush(120)
    words = [
        [s.words for s in each.assessment.sentences]
        for each in reports.reports
        if each.role == role
    ]
    assert words == [[(), ("purple",)]]


async def test_without_torch_the_extra_is_named(monkeypatch):
    """The first reading says what to install."""
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(MissingExtraError, match=r"ragmonitor\[encoder\]"):
        await EncoderJudge("any").assess(told("The tower is red."))


def test_it_keeps_the_protocol():
    """A judge with something to load."""
    assert as_judge(EncoderJudge("any")).connects
    with pytest.raises(ValueError, match="threshold"):
        EncoderJudge("any", threshold=1.0)


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["contradiction", "neutral", "entailment"], (2, 0)),
        (["ENTAILMENT", "NOT_ENTAILMENT"], (0, None)),
        (["hallucinated", "consistent"], (1, None)),
        (["inconsistent", "consistent"], (1, None)),
        (["unsupported", "Supported"], (1, None)),
        (["score"], (0, None)),
    ],
)
def test_labels_are_told_by_their_names(names, expected):
    """Whatever their order."""
    assert _labels(dict(enumerate(names))) == expected


def test_labels_without_a_meaning_are_refused():
    """A guess would turn every verdict around."""
    with pytest.raises(ValueError, match="none of its labels"):
        _labels({0: "LABEL_0", 1: "LABEL_1"})
