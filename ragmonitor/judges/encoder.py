"""An encoder as the judge: a small model on this machine classifies pairs of texts, or tokens.

Two families of checkpoints, told apart by their architecture:

- sequence-pair classification, as NLI models and Vectara's HHEM: is the sentence consistent with
  the evidence?
- token classification, as LettuceDetect: which tokens of the answer does the evidence not bear?

The built-in judge decides what such a model does not say: what is a claim, a refusal, to the point.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from importlib import import_module
from typing import Any, Final, NamedTuple

from ragmonitor.judges import sentences as splitter
from ragmonitor.judges.builtin import BuiltinJudge
from ragmonitor.judges.long_evidence import spread
from ragmonitor.judges.reply import verdict_of
from ragmonitor.judges.scrubbing import one_line_of
from ragmonitor.judges.sentences import Sentence
from ragmonitor.judges.tokens import estimate_tokens
from ragmonitor.records import Assessment, Cause, Interaction, JudgeIdentity, Verdict
from ragmonitor.runtime.apart import apart
from ragmonitor.runtime.errors import JudgeError, MissingExtraError

RULES: Final = 3
"""Raised whenever the same scores would give other verdicts."""
MAX_TOKENS: Final = 4096
"""Tokens of one input, where the model's own limit is higher or not said."""
INPUTS_AT_ONCE: Final = 4
"""It bounds the memory that a forward pass takes beside the weights."""
_MIN_EVIDENCE_TOKENS: Final = 16
"""Room that must be left for evidence in one input."""
_SUPPORTED: Final = ("entail", "consistent", "support", "faithful", "factual")
_NEGATIONS: Final = ("not", "non", "in", "un", "hall")

Pair = tuple[str, str]
"""Evidence, and what is to be checked against it."""
Spans = dict[tuple[int, int], float]
"""Scores of pieces of an answer, by their first character and the one behind their last."""


class _Model(NamedTuple):
    """A loaded classifier."""

    window: int
    """Tokens that one input may have."""
    supports: Callable[[Sequence[Pair]], list[Any]]
    """Returns what it says of each pair: of pairs the score that the evidence bears the sentence,
    of tokens `Spans` with the score of each token of the answer."""
    is_of_tokens: bool


_Support = tuple[float, Sequence[int], Sequence[str]]
"""How well a sentence is supported, the chunks that bear it, and its words that none bears."""
_TURN: Final = threading.Lock()
"""One input at a time: a second one would only share the same cores."""


class EncoderJudge:
    """Judges with an encoder from the Hugging Face hub or a folder, on a thread of its own.

    A sentence is supported if its share reaches `threshold` for one chunk or for neighbours
    together; `risk` is 1 minus the least share. Evidence beyond the model's window is read in
    several. Needs `pip install 'ragmonitor[encoder]'`.

    Sources:
        Laban et al., "SummaC" (2022), arXiv:2111.09525, for the best evidence sentence by sentence;
        Kovács and Recski, "LettuceDetect" (2025), arXiv:2502.17125, for tokens.
    """

    def __init__(
        self,
        model: str,
        *,
        revision: str = "main",
        threshold: float = 0.5,
        device: str = "cpu",
        trust_remote_code: bool = False,
    ) -> None:
        """Build the judge; nothing is imported or loaded before the first reading.

        Args:
            model: Name on the hub, or a folder.
            revision: Of the model: part of the judge's version.
            threshold: From which share on a sentence is supported.
            device: Where it runs, as torch names it.
            trust_remote_code: Whether the checkpoint's own code may run (HHEM 2.1 has some).
        """
        if not 0 < threshold < 1:
            raise ValueError(f"a threshold lies between 0 and 1, not at {threshold}")
        self._name, self._threshold, self._device = model, threshold, device
        self._options = {"revision": revision, "trust_remote_code": trust_remote_code}
        self._builtin = BuiltinJudge()
        self.identity = JudgeIdentity(
            name=model, version=f"{revision}.{threshold:g}.{RULES}", kind="LLM"
        )
        self._model: _Model | JudgeError | MissingExtraError | None = None
        """Or why it cannot be loaded."""

    budget_unit: None = None
    """A reading costs neither money nor tokens."""

    def expected_cost(self, interaction: Interaction) -> float:  # noqa: ARG002 - of the protocol
        """Return 0."""
        return 0.0

    async def prepare(self) -> None:
        """Load the model, ahead of the first reading.

        Raises:
            MissingExtraError: transformers or torch is not installed.
            JudgeError: There is no such model, or it classifies neither pairs nor tokens.
        """
        await apart(self._loaded)

    async def close(self) -> None:
        """Release the model."""
        self._model = None

    async def assess(self, interaction: Interaction) -> Assessment:
        """Return what the model says of each sentence.

        Raises:
            JudgeError: The model could not be loaded, or failed, or the answer does not fit.
            MissingExtraError: transformers or torch is not installed.
        """
        return await apart(self._read, interaction)

    def _read(self, interaction: Interaction) -> Assessment:
        model = self._loaded()
        base = self._builtin.read(replace(interaction, reference=""))
        sentences = splitter.split(interaction.answer)
        silent = {s.start for s in base.sentences or () if s.verdict is Verdict.NO_CLAIM}
        claims = [each for each in sentences if each.start not in silent]
        read = self._by_tokens if model.is_of_tokens else self._by_pairs
        found = dict(zip(claims, read(model, interaction, claims) if claims else (), strict=True))
        verdicts = []
        for each in sentences:
            share, chunks, words = found.get(each, (None, (), ()))
            verdict = Verdict.NO_CLAIM
            if share is not None:
                verdict = Verdict.SUPPORTED if share >= self._threshold else Verdict.ABSENT
            details = {"chunks": tuple(chunks), "words": tuple(words), "support": share}
            verdicts.append(verdict_of(each, verdict, **details))
        risk = 1 - min((share for share, _, _ in found.values()), default=1.0)
        return replace(base, judge=self.identity, sentences=tuple(verdicts), risk=risk)

    def _by_pairs(
        self, model: _Model, interaction: Interaction, claims: Sequence[Sentence]
    ) -> Iterator[_Support]:
        """Compare each sentence with each chunk, and with neighbours together."""
        longest = max(estimate_tokens(claim.text) for claim in claims)
        room = max(_MIN_EVIDENCE_TOKENS, model.window - longest - 8)
        # Each chunk alone, in pieces if need be, and then neighbours together.
        shares = spread([chunk.text for chunk in interaction.chunks], room_tokens=room)
        alone = [part for share in shares for part in share]
        texts = [part.text for part in alone]
        texts += ["\n".join(part.text for part in share) for share in shares if len(share) > 1]
        for claim in claims:
            scores = self._scores(model, [(text, claim.text) for text in texts])
            by_chunk: dict[int, float] = {}
            for part, score in zip(alone, scores, strict=False):
                by_chunk[part.position] = max(by_chunk.get(part.position, 0.0), score)
            best = max(scores, default=0.0)
            order = sorted(by_chunk, key=lambda each: -by_chunk[each])
            bearing = [each for each in order if by_chunk[each] >= best / 2]
            # A claim that only several support together rests on two of them at least.
            yield best, (bearing or order[:2]) if best >= self._threshold else (), ()

    def _by_tokens(
        self, model: _Model, interaction: Interaction, claims: Sequence[Sentence]
    ) -> Iterator[_Support]:
        """Classify the whole answer at once, behind the question and as many chunks as fit."""
        answer, query = splitter.without_thoughts(interaction.answer), interaction.query
        room = model.window - estimate_tokens(answer) - estimate_tokens(_passages(query, [])) - 8
        if room < _MIN_EVIDENCE_TOKENS:
            why = f"question and answer leave no room for evidence in {model.window} tokens"
            raise self._failure(why, Cause.EVIDENCE_TOO_LONG)
        shares = spread([chunk.text for chunk in interaction.chunks], room_tokens=room)
        inputs = [(_passages(query, [part.text for part in share]), answer) for share in shares]
        best: Spans = {}
        for scores in self._scores(model, inputs):
            for (start, end), score in scores.items():
                # To byte-level tokenizers the space before a word is part of it.
                if visible := answer[start:end].lstrip():
                    span = end - len(visible), end
                    # A token that one window supports is supported.
                    best[span] = max(score, best.get(span, 0.0))
        for claim in claims:
            within = {span: s for span, s in best.items() if claim.start <= span[0] < claim.end}
            bad = sorted(span for span, score in within.items() if score < self._threshold)
            yield min(within.values(), default=0.0), (), _words(answer, bad)

    def _scores(self, model: _Model, pairs: Sequence[Pair]) -> list[Any]:
        scores: list[Any] = []
        try:
            with _TURN:
                for at in range(0, len(pairs), INPUTS_AT_ONCE):
                    scores += model.supports(pairs[at : at + INPUTS_AT_ONCE])
        except RuntimeError as error:  # `torch.OutOfMemoryError` is one
            # Not `from error`: its frames hold tensors.
            raise self._failure(f"the model failed: {one_line_of(error)}") from None
        return scores

    def _loaded(self) -> _Model:
        with _TURN:
            if self._model is None:
                try:
                    self._model = _load(self._name, self._device, self._options)
                except MissingExtraError as error:
                    self._model = error
                except (OSError, ValueError, RuntimeError, AssertionError) as error:
                    self._model = self._failure(f"it cannot be loaded: {one_line_of(error)}")
            if isinstance(self._model, Exception):
                raise self._model
            return self._model

    def _failure(self, problem: str, cause: Cause = Cause.JUDGE_ERROR) -> JudgeError:
        return JudgeError(self._name, problem, cause=cause)


def _load(name: str, device: str, options: Mapping[str, Any]) -> _Model:
    """Return the model of a name on the hub, or of a folder.

    Raises:
        MissingExtraError: The libraries are not installed.
        OSError: There is no such model.
        ValueError: It classifies neither pairs nor tokens.
        RuntimeError: torch, or the machine, lacks the device.
    """
    try:
        torch, transformers = import_module("torch"), import_module("transformers")
    except ImportError as error:
        raise MissingExtraError(error.name or "transformers", "encoder") from error
    config = transformers.AutoConfig.from_pretrained(name, **options)
    kinds = getattr(config, "architectures", None) or ()
    is_of_tokens = any("TokenClassification" in kind for kind in kinds)
    if not is_of_tokens and not any("SequenceClassification" in kind for kind in kinds):
        raise ValueError(f"it classifies neither pairs nor tokens ({', '.join(kinds)})")
    kind = "Token" if is_of_tokens else "Sequence"
    auto = getattr(transformers, f"AutoModelFor{kind}Classification")
    model = auto.from_pretrained(name, **options).to(device).eval()
    if callable(predict := getattr(model, "predict", None)):  # HHEM 2.1 brings its tokenizer

        def predicted(pairs: Sequence[Pair]) -> list[Any]:
            return [float(share) for share in predict(list(pairs))]

        return _Model(MAX_TOKENS, torch.inference_mode()(predicted), is_of_tokens=False)
    tokenizer = transformers.AutoTokenizer.from_pretrained(name, **options)
    positions = getattr(config, "max_position_embeddings", None) or MAX_TOKENS
    # A tokenizer without a limit says a number beyond all sense.
    window = int(min(MAX_TOKENS, tokenizer.model_max_length or MAX_TOKENS, positions))
    supported = 0 if is_of_tokens else _supported(config.id2label)

    def supports(pairs: Sequence[Pair]) -> list[Any]:
        encoded = tokenizer(
            *map(list, zip(*pairs, strict=True)),
            truncation="only_first" if is_of_tokens else "longest_first",
            max_length=window,
            padding=True,
            return_offsets_mapping=True,
            return_tensors="pt",
        )
        offsets = encoded.pop("offset_mapping").tolist()
        logits = model(**encoded.to(device)).logits.float()
        one = logits.shape[-1] == 1  # one score: that it is consistent
        shares = (logits.sigmoid() if one else logits.softmax(-1))[..., supported].tolist()
        if not is_of_tokens:
            return list(shares)
        scores: list[Any] = []
        for at, row in enumerate(shares):
            tokens = zip(row, offsets[at], encoded.sequence_ids(at), strict=True)
            scores.append({(a, z): s for s, (a, z), text in tokens if text == 1 and z > a})
        return scores

    return _Model(window, torch.inference_mode()(supports), is_of_tokens)


def _supported(names: Mapping[int, str]) -> int:
    """Return the position of the label that says supported.

    Raises:
        ValueError: The names of several labels do not tell.
    """
    for position, name in names.items():
        plain = name.lower()
        if any(sign in plain for sign in _SUPPORTED) and not plain.startswith(_NEGATIONS):
            return int(position)
    if len(names) > 1:
        raise ValueError(f"none of its labels says supported: {', '.join(names.values())}")
    return 0


def _passages(question: str, chunks: Sequence[str]) -> str:
    """Return question and passages in the words that LettuceDetect was trained on."""
    passages = "\n".join(f"passage {number}: {text}" for number, text in enumerate(chunks, 1))
    return (
        f"Briefly answer the following question:\n{question}\n"
        "Bear in mind that your response should be strictly based on the following "
        f"{len(chunks)} passages:\n{passages}\n"
        "In case the passages do not contain the necessary information to answer the question, "
        'please reply with: "Unable to answer based on given passages."\noutput:'
    )


def _words(answer: str, spans: Sequence[tuple[int, int]]) -> tuple[str, ...]:
    """Return the pieces of the answer that neighbouring spans make up."""
    pieces: list[list[int]] = []
    for start, end in spans:
        if pieces and not answer[pieces[-1][1] : start].strip():
            pieces[-1][1] = end
        else:
            pieces.append([start, end])
    return tuple(dict.fromkeys(answer[start:end] for start, end in pieces))
