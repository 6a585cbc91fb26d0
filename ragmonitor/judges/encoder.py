"""An encoder as the judge: a small model of one's own classifies pairs of texts, or tokens.

Two families of checkpoints, told apart by their architecture:

- sequence-pair classification, as NLI models and Vectara's HHEM: is the sentence consistent with
  the evidence?
- token classification, as LettuceDetect: which tokens of the answer does the evidence not bear?

The built-in judge decides what such a model does not say: what is a claim, a refusal, to the point.
"""

from __future__ import annotations

import math
import os
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Protocol

from ragmonitor.apart import apart
from ragmonitor.errors import JudgeError
from ragmonitor.judges import sentences as splitter
from ragmonitor.judges.builtin import BuiltinJudge
from ragmonitor.judges.encoder_models import (
    MAX_BATCH_TOKENS,
    MAX_TOKENS,
    Kind,
    Logits,
    Model,
    Pair,
    load_model,
    softmax,
)
from ragmonitor.judges.long_evidence import spread
from ragmonitor.judges.scrubbing import scrubbed
from ragmonitor.judges.sentences import Sentence
from ragmonitor.judges.tokens import estimate_tokens
from ragmonitor.records import (
    Assessment,
    Cause,
    Interaction,
    JudgeIdentity,
    SentenceVerdict,
    Verdict,
)

RULES: Final = 2
"""Raised whenever the same scores would give other verdicts."""
_MIN_EVIDENCE_TOKENS: Final = 16
"""Room that must be left for evidence in one input."""
_SUPPORTED: Final = ("entail", "consistent", "support", "faithful", "factual")
_NEGATIONS: Final = ("not", "non", "in", "un", "hall")
_CONTRADICTED: Final = ("contradict",)


@dataclass(frozen=True, slots=True, kw_only=True)
class Support:
    """The model's score of one sentence."""

    share: float
    """Score that the evidence supports it, from 0 to 1."""
    contradicted: float = 0.0
    chunks: tuple[int, ...] = ()
    """Positions of those that support it, best first."""
    words: tuple[str, ...] = ()


class Reader(Protocol):
    """Turns an answer into a model's inputs, and its outputs into each sentence's support."""

    def inputs(self, interaction: Interaction, claims: Sequence[Sentence]) -> Sequence[Pair]:
        """Return what the model is to compare. Raises `JudgeError`: it does not fit."""
        ...

    def outputs(self, pairs: Sequence[Pair]) -> Sequence[Any]:
        """Return what the model says of a batch, one output for each pair."""
        ...

    def supports(
        self, interaction: Interaction, claims: Sequence[Sentence], outputs: Sequence[Any]
    ) -> Sequence[Support]:
        """Return the support of each sentence, in order, from the outputs of its inputs."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class _Begun:
    """One answer of a batch, ready for the model."""

    interaction: Interaction
    base: Assessment
    """The built-in judge's."""
    sentences: Sequence[Sentence]
    claims: Sequence[Sentence]
    inputs: Sequence[Pair]


class EncoderJudge:
    """Judges with an encoder from the Hugging Face hub or a folder, on a thread of its own.

    A sentence is supported if its share reaches `threshold` for one chunk or for all of them
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
        kind: Kind | None = None,
        threshold: float = 0.5,
        device: str = "cpu",
        batch_size: int = 16,
        trust_remote_code: bool = False,
        threads: int | None = None,
    ) -> None:
        """Build the judge; nothing is imported or loaded before the first reading.

        Args:
            model: Name on the hub, or a folder.
            revision: Of the model: part of the judge's version.
            kind: What the model classifies; None: its architecture tells.
            threshold: From which share on a sentence is supported.
            device: Where it runs, as torch names it.
            batch_size: Inputs at once, fewer of long ones.
            trust_remote_code: Whether the checkpoint's own code may run (HHEM 2.1 has some).
            threads: For the model; torch then has so many in the whole process. None: as it is.
        """
        if not 0 < threshold < 1:
            raise ValueError(f"a threshold lies between 0 and 1, not at {threshold}")
        if batch_size < 1:
            raise ValueError(f"a batch has at least one input, not {batch_size}")
        self._model_name = model
        self._revision = revision
        self._kind: Kind | None = kind
        self._threshold = threshold
        self._device = device
        self._batch_size = batch_size
        self._trust_remote_code = trust_remote_code
        self._threads = threads
        self._builtin = BuiltinJudge()
        self.identity = JudgeIdentity(
            name=model, version=f"{revision}.{threshold:g}.{RULES}", kind="LLM"
        )
        self._reset()

    def _reset(self) -> None:
        self._process = os.getpid()
        self._lock = threading.Lock()
        self._loaded: Reader | None = None

    def __getstate__(self) -> dict[str, Any]:
        """Leave out what belongs to this process: it is loaded again in another."""
        mine = ("_process", "_lock", "_loaded")
        return {name: value for name, value in vars(self).items() if name not in mine}

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        """Begin in another process."""
        vars(self).update(state)
        self._reset()

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
        await apart(self._load)

    async def assess(self, interaction: Interaction) -> Assessment:
        """Return what the model says of each sentence.

        Raises:
            JudgeError: The model could not be loaded, or the answer does not fit its window.
            MissingExtraError: transformers or torch is not installed.
        """
        if os.getpid() != self._process:
            # A forked child: the parent's thread may have held the lock, and torch its own.
            self._reset()
        (outcome,) = await apart(self.read_batch, [interaction])
        if isinstance(outcome, JudgeError):
            raise outcome
        return outcome

    async def close(self) -> None:
        """Release the model."""
        self._loaded = None

    def read_batch(
        self, interactions: Sequence[Interaction], *, within_s: float = math.inf
    ) -> list[Assessment | JudgeError]:
        """Return what the model says of several answers, or why it says nothing of one.

        The inputs of all of them go through the model together, as many at once as its batch takes.

        Args:
            interactions: The answers.
            within_s: After which no further inputs are begun; the answers that are not through by
                then have the cause `judge_timeout`.

        Raises:
            JudgeError: The model could not be loaded.
            MissingExtraError: The libraries are not installed.
        """
        deadline = time.monotonic() + within_s
        model = self._load()
        begun = [self._begun(model, each) for each in interactions]
        inputs = [pair for each in begun if isinstance(each, _Begun) for pair in each.inputs]
        outputs: list[Any] = []
        with self._lock:  # one at a time: a second one would only share the same cores
            for batch in _batches(inputs, self._batch_size):
                if time.monotonic() >= deadline:
                    break
                outputs += _outputs(model, batch)
        outcomes: list[Assessment | JudgeError] = []
        at = 0
        for each in begun:
            if isinstance(each, JudgeError):
                outcomes.append(each)
                continue
            at, before = at + len(each.inputs), at
            mine = outputs[before:at]
            failed = next((output for output in mine if isinstance(output, RuntimeError)), None)
            if failed is not None:
                why = f"the model failed: {_in_a_line(failed)}"
                outcomes.append(self._failure(why, Cause.JUDGE_ERROR))
            elif len(mine) == len(each.inputs):
                outcomes.append(self._assessment(model, each, mine))
            else:
                outcomes.append(self._failure("not read in time", Cause.JUDGE_TIMEOUT))
        return outcomes

    def _begun(self, model: Reader, interaction: Interaction) -> _Begun | JudgeError:
        try:
            base = self._builtin.read(replace(interaction, reference=""))
            sentences = splitter.split(interaction.answer)
            silent = {s.start for s in base.sentences or () if s.verdict is Verdict.NO_CLAIM}
            claims = [sentence for sentence in sentences if sentence.start not in silent]
            inputs = model.inputs(interaction, claims) if claims else ()
        except JudgeError as error:
            return error
        return _Begun(
            interaction=interaction, base=base, sentences=sentences, claims=claims, inputs=inputs
        )

    def _assessment(self, model: Reader, begun: _Begun, outputs: Sequence[Any]) -> Assessment:
        logits = model.supports(begun.interaction, begun.claims, outputs) if begun.claims else ()
        supports = dict(zip(begun.claims, logits, strict=True))
        shares = [support.share for support in supports.values()]
        return replace(
            begun.base,
            judge=self.identity,
            sentences=tuple(self._verdict(each, supports.get(each)) for each in begun.sentences),
            risk=1 - min(shares) if shares else 0.0,
        )

    def _verdict(self, sentence: Sentence, support: Support | None) -> SentenceVerdict:
        verdict = Verdict.NO_CLAIM
        if support is not None:
            verdict = Verdict.ABSENT
            if support.share >= self._threshold:
                verdict = Verdict.SUPPORTED
            elif support.contradicted >= self._threshold:
                verdict = Verdict.CONTRADICTED
        is_supported = verdict is Verdict.SUPPORTED
        return SentenceVerdict(
            text=sentence.text,
            start=sentence.start,
            end=sentence.end,
            verdict=verdict,
            chunks=support.chunks if support is not None and is_supported else (),
            words=support.words if support is not None and not is_supported else (),
            support=None if support is None else support.share,
        )

    def _load(self) -> Reader:
        with self._lock:
            if self._loaded is None:
                try:
                    self._loaded = self._load_anew()
                except (OSError, ValueError, RuntimeError) as error:
                    why = f"the model cannot be loaded: {_in_a_line(error)}"
                    raise self._failure(why, Cause.JUDGE_ERROR) from error
            return self._loaded

    def _load_anew(self) -> Reader:
        model = load_model(
            self._model_name,
            revision=self._revision,
            kind=self._kind,
            device=self._device,
            trust_remote_code=self._trust_remote_code,
            threads=self._threads,
        )
        if model.kind == "tokens":
            return _TokenReader(self._model_name, model=model, threshold=self._threshold)
        return _PairReader(model)

    def _failure(self, problem: str, cause: Cause) -> JudgeError:
        return JudgeError(self._model_name, problem, cause=cause, retryable=False)


def _in_a_line(error: Exception) -> str:
    return " ".join(scrubbed(str(error)).split())[:240]


def _outputs(model: Reader, batch: Sequence[Pair]) -> Sequence[Any]:
    """Return what the model says of each input, or the error that this input alone comes to.

    An accelerator may lack the memory for several at once.
    """
    try:
        return model.outputs(batch)
    except RuntimeError as error:  # `torch.OutOfMemoryError` is one
        if len(batch) == 1:
            return [RuntimeError(str(error))]  # another: the frames of this one hold its tensors
    half = len(batch) // 2
    return [*_outputs(model, batch[:half]), *_outputs(model, batch[half:])]


def _batches(inputs: Sequence[Pair], size: int) -> Iterator[Sequence[Pair]]:
    """Yield the inputs in order, as many at once as are computed in a bounded memory."""
    batch: list[Pair] = []
    longest = 0.0
    for pair in inputs:
        tokens = min(MAX_TOKENS, estimate_tokens(pair[0]) + estimate_tokens(pair[1]))
        padded = (len(batch) + 1) * max(longest, tokens)
        if batch and (len(batch) == size or padded > MAX_BATCH_TOKENS):
            yield batch
            batch, longest = [], 0.0
        batch.append(pair)
        longest = max(longest, tokens)
    if batch:
        yield batch


class _PairReader:
    """Compares each sentence with each chunk, and with all of them together."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self._supported, self._contradicted = (0, None) if model.predict else _labels(model.labels)

    def inputs(self, interaction: Interaction, claims: Sequence[Sentence]) -> Sequence[Pair]:
        """Return each sentence with each chunk, then with all of them together."""
        evidence, together = self._evidence(interaction, claims)
        texts = [*(text for _, text in evidence), *together]
        return [(text, claim.text) for claim in claims for text in texts]

    def outputs(self, pairs: Sequence[Pair]) -> Sequence[tuple[float, float]]:
        """Return the chances that the evidence supports a sentence, and that it contradicts it."""
        if self._model.predict is not None:  # which says nothing of contradiction
            return [(share, 0.0) for share in self._model.predict(pairs)]
        return [self._scores(each.rows) for each in self._model.logits(pairs, "longest_first")]

    def _scores(self, row: Sequence[float]) -> tuple[float, float]:
        if len(row) == 1:  # one score: that it is consistent
            return 1 / (1 + math.exp(-max(-700.0, row[0]))), 0.0
        shares = softmax(row)
        against = 0.0 if self._contradicted is None else shares[self._contradicted]
        return shares[self._supported], against

    def _evidence(
        self, interaction: Interaction, claims: Sequence[Sentence]
    ) -> tuple[list[tuple[int, str]], list[str]]:
        """Return the pieces of each chunk with its position, and what is read together."""
        chunks = [chunk.text for chunk in interaction.chunks]
        longest = max(estimate_tokens(claim.text) for claim in claims)
        room = max(_MIN_EVIDENCE_TOKENS, self._model.window - longest - 8)
        alone = [
            (position, part.text)
            for position, chunk in enumerate(chunks)
            for share in spread([chunk], room_tokens=room)
            for part in share
        ]
        together = [
            "\n".join(part.text for part in share)
            for share in spread(chunks, room_tokens=room)
            if len({part.position for part in share}) > 1
        ]
        return alone, together

    def supports(
        self, interaction: Interaction, claims: Sequence[Sentence], outputs: Sequence[Any]
    ) -> Sequence[Support]:
        """Return the support of each sentence, in order."""
        evidence, together = self._evidence(interaction, claims)
        alone, each = len(evidence), len(evidence) + len(together)
        supports = []
        for number in range(len(claims)):
            scores = outputs[number * each : (number + 1) * each]
            by_chunk: dict[int, float] = {}
            for (position, _), (share, _) in zip(evidence, scores[:alone], strict=True):
                by_chunk[position] = max(by_chunk.get(position, 0.0), share)
            supports.append(_supported(by_chunk, scores[:alone], scores[alone:]))
        return supports


def _supported(
    by_chunk: Mapping[int, float],
    alone: Sequence[tuple[float, float]],
    together: Sequence[tuple[float, float]],
) -> Support:
    best_alone = max(by_chunk.values(), default=0.0)
    best = max([best_alone, *(share for share, _ in together)])
    order = sorted(by_chunk, key=lambda position: -by_chunk[position])
    bearing = [position for position in order if by_chunk[position] >= best / 2]
    # A claim that only several support together rests on two of them at least.
    cited = bearing if best_alone >= best / 2 else order[:2]
    return Support(
        share=best,
        contradicted=max((against for _, against in (*alone, *together)), default=0.0),
        chunks=tuple(cited),
    )


class _TokenReader:
    """Classifies the whole answer at once, token by token."""

    def __init__(self, name: str, *, model: Model, threshold: float) -> None:
        self._name = name
        self._model = model
        self._threshold = threshold

    def inputs(self, interaction: Interaction, claims: Sequence[Sentence]) -> Sequence[Pair]:  # noqa: ARG002 - of the protocol
        """Return the answer behind the question and as many chunks at a time as fit.

        Raises:
            JudgeError: Question and answer leave no room for evidence.
        """
        answer = interaction.answer
        fixed = estimate_tokens(answer) + estimate_tokens(_passages(interaction.query, [])) + 8
        room = self._model.window - fixed
        if room < _MIN_EVIDENCE_TOKENS:
            raise JudgeError(
                self._name,
                f"question and answer of about {fixed:.0f} tokens leave no room for evidence in "
                f"{self._model.window}",
                cause=Cause.EVIDENCE_TOO_LONG,
                retryable=False,
            )
        shares = spread([chunk.text for chunk in interaction.chunks], room_tokens=room)
        return [
            (_passages(interaction.query, [part.text for part in share]), answer)
            for share in shares
        ]

    def outputs(self, pairs: Sequence[Pair]) -> Sequence[Mapping[tuple[int, int], float]]:
        """Return the risk of each token of the answer, by its characters."""
        return [_risks(each) for each in self._model.logits(pairs, "only_first")]

    def supports(
        self, interaction: Interaction, claims: Sequence[Sentence], outputs: Sequence[Any]
    ) -> Sequence[Support]:
        """Return the support of each sentence: 1 minus the risk of its worst token."""
        answer = interaction.answer
        least: dict[tuple[int, int], float] = {}
        for risks in outputs:
            for (start, end), risk in risks.items():
                # To byte-level tokenizers the space before a word is part of it: of a sentence's
                # first word, it belongs to no sentence.
                visible = answer[start:end].lstrip()
                if visible:
                    span = end - len(visible), end
                    # A token that one window supports is supported.
                    least[span] = min(risk, least.get(span, 1.0))
        supports = []
        for claim in claims:
            within = {s: r for s, r in least.items() if claim.start <= s[0] < claim.end}
            if not within:  # signs that the tokenizer has no token for
                supports.append(Support(share=0.0))
                continue
            bad = sorted(span for span, risk in within.items() if risk > 1 - self._threshold)
            words = _words(answer, bad)
            supports.append(Support(share=1 - max(within.values()), words=words))
        return supports


def _risks(logits: Logits) -> dict[tuple[int, int], float]:
    return {
        (int(start), int(end)): softmax(row)[1]
        for row, (start, end), text in zip(logits.rows, logits.spans, logits.texts, strict=True)
        if text == 1 and end > start
    }


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


def _labels(names: Mapping[int, str]) -> tuple[int, int | None]:
    """Return the positions of the labels that say supported and contradicted.

    Raises:
        ValueError: The names of several labels do not tell.
    """
    supported = contradicted = None
    for position, name in names.items():
        plain = name.lower()
        if any(sign in plain for sign in _CONTRADICTED):
            contradicted = int(position)
        elif any(sign in plain and not plain.startswith(_NEGATIONS) for sign in _SUPPORTED):
            supported = int(position)
    if supported is None and len(names) > 1:
        raise ValueError(f"none of its labels says supported: {', '.join(names.values())}")
    return supported or 0, contradicted
