"""Encoders as judges, with real models that are small enough to build here."""

import sys

import pytest

from ragmonitor.capabilities import as_judge
from ragmonitor.errors import JudgeError, MissingExtraError
from ragmonitor.judges.encoder import EncoderJudge, _labels
from ragmonitor.records import Cause, Verdict
from tests.support.stories import interaction

VOCABULARY = (
    "[PAD] [UNK] [CLS] [SEP] [MASK] the tower is red tall old purple and it was built paris "
    "in . , : ? ! < >"
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
        embeddings.word_embeddings.weight[WORDS.index("purple"), 0] = 1.0
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


async def test_neighbouring_tokens_are_one_piece(tokens):
    """As long as only space is between them."""
    found = await EncoderJudge(tokens).assess(told("It is purple purple, and purple tall."))
    assert found.sentences[0].words == ("purple purple", "purple")


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
