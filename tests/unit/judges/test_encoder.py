"""Encoders as judges, with real models that are small enough to build here."""

import sys

import pytest

from ragmonitor.judges.encoder import EncoderJudge, _Model, _supported
from ragmonitor.records import Cause, Verdict
from ragmonitor.runtime.errors import JudgeError, MissingExtraError
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


def is_good(name):
    return name in ("entailment", "consistent", "LABEL_0", "supported")


@pytest.fixture(scope="module")
def pairs(libraries, tmp_path_factory):
    folder = tmp_path_factory.mktemp("pairs")
    return tiny(libraries, folder, "pairs", ["entailment", "neutral", "contradiction"])


@pytest.fixture(scope="module")
def tokens(libraries, tmp_path_factory):
    return tiny(libraries, tmp_path_factory.mktemp("tokens"), "tokens", ["LABEL_0", "LABEL_1"])


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
    """As an error of the judge's, and not as torch's own."""
    torch, _ = libraries
    for device in ("gpu", *(() if torch.cuda.is_available() else ("cuda",))):
        with pytest.raises(JudgeError, match="cannot be loaded") as failure:
            await EncoderJudge(pairs, device=device).prepare()
        assert failure.value.cause is Cause.JUDGE_ERROR


@pytest.mark.parametrize("kind", ["pairs", "tokens"])
async def test_an_accelerator_says_what_the_processor_says(libraries, request, kind):
    """Verdicts and words alike, shares to float precision; where the machine has one."""
    torch, _ = libraries
    if not torch.cuda.is_available():
        pytest.skip("needs a GPU that torch can use")
    folder = request.getfixturevalue(kind)
    here, there = EncoderJudge(folder), EncoderJudge(folder, device="cuda")
    for answer in (ANSWER, "It is purple purple, and purple tall.", "It is red."):
        one, other = await here.assess(told(answer)), await there.assess(told(answer))
        assert other.risk == pytest.approx(one.risk, abs=1e-4)
        assert [(s.verdict, s.words, s.chunks) for s in other.sentences] == [
            (s.verdict, s.words, s.chunks) for s in one.sentences
        ]


def failing(_pairs):
    raise RuntimeError("CUDA out of memory. Tried to allocate 2.00 GiB")


async def test_a_model_that_fails_costs_its_answer_and_says_why(monkeypatch):
    """As one that lacks the memory on its device."""
    model = _Model(64, failing, is_of_tokens=False)
    monkeypatch.setattr("ragmonitor.judges.encoder._load", lambda *_: model)
    with pytest.raises(JudgeError, match="CUDA out of memory") as failure:
        await EncoderJudge("m").assess(told("The tower is red."))
    assert failure.value.cause is Cause.JUDGE_ERROR


async def test_sentences_and_chunks_are_paired(monkeypatch):
    """Each with each, and with neighbours together, whatever the model is."""
    asked = []

    def supports(pairs):
        asked.extend(pairs)
        return [0.1 if "purple" in claim or "old" not in text else 0.9 for text, claim in pairs]

    model = _Model(512, supports, is_of_tokens=False)
    monkeypatch.setattr("ragmonitor.judges.encoder._load", lambda *_: model)
    found = await EncoderJudge("m").assess(told(ANSWER, "it is tall", "it is old"))
    assert [s.verdict for s in found.sentences] == [SUPPORTED, ABSENT]
    assert found.sentences[0].chunks == (1,)
    assert [text for text, _ in asked[:3]] == ["it is tall", "it is old", "it is tall\nit is old"]
    assert found.risk == pytest.approx(0.9)


async def test_a_token_with_the_space_before_it_belongs_to_the_sentence_behind(monkeypatch):
    """Offsets of ModernBERT's tokenizer begin at the space: a sentence's first word counts."""
    scores = {(0, 2): 0.9, (2, 5): 0.9, (5, 9): 0.9, (9, 10): 0.9, (10, 17): 0.1, (17, 21): 0.9}
    model = _Model(512, lambda pairs: [scores for _ in pairs], is_of_tokens=True)
    monkeypatch.setattr("ragmonitor.judges.encoder._load", lambda *_: model)
    found = await EncoderJudge("m").assess(told("It is red. Purple too."))
    first, second = found.sentences
    assert (first.support, second.support) == (pytest.approx(0.9), pytest.approx(0.1))
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


@pytest.mark.parametrize("kind", ["pairs", "tokens"])
async def test_chinese_by_a_multilingual_model(request, kind):
    """Characters are tokens; the words are named as they stand in the answer."""
    found = await EncoderJudge(request.getfixturevalue(kind)).assess(
        told("塔是红色的。它是紫色的。", "塔是红色的，它很高。")
    )
    assert found.language == "zh"
    assert [s.verdict for s in found.sentences] == [SUPPORTED, ABSENT]
    if kind == "tokens":
        assert found.sentences[1].words == ("紫",)


async def test_without_torch_the_extra_is_named(monkeypatch):
    """The first reading says what to install."""
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(MissingExtraError, match=r"ragmonitor\[encoder\]"):
        await EncoderJudge("any").assess(told("The tower is red."))


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["contradiction", "neutral", "entailment"], 2),
        (["ENTAILMENT", "NOT_ENTAILMENT"], 0),
        (["hallucinated", "consistent"], 1),
        (["inconsistent", "consistent"], 1),
        (["unsupported", "Supported"], 1),
        (["score"], 0),
    ],
)
def test_labels_are_told_by_their_names(names, expected):
    """Whatever their order."""
    assert _supported(dict(enumerate(names))) == expected


def test_labels_without_a_meaning_are_refused():
    """A guess would turn every verdict around."""
    with pytest.raises(ValueError, match="none of its labels"):
        _supported({0: "LABEL_0", 1: "LABEL_1"})
