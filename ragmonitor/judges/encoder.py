"""An encoder as the judge: a small model of one's own classifies pairs of texts, or tokens.

Two families of checkpoints, told apart by their architecture:

- sequence-pair classification, as NLI models and Vectara's HHEM: is the sentence consistent with
  the evidence?
- token classification, as LettuceDetect: which tokens of the answer does the evidence not bear?

The built-in judge decides what such a model does not say: what is a claim, a refusal, to the point.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final, Literal

from ragmonitor import imports
from ragmonitor.apart import apart
from ragmonitor.errors import JudgeError, MissingExtraError
from ragmonitor.judges import sentences as splitter
from ragmonitor.judges.builtin import BuiltinJudge
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

RULES: Final = 1
"""Raised whenever the same scores would give other verdicts."""
MAX_TOKENS: Final = 4096
"""Tokens of one input, where the model's own limit is higher or not said."""
_MIN_EVIDENCE_TOKENS: Final = 16
"""Room that must be left for evidence in one input."""
_SUPPORTED: Final = ("entail", "consistent", "support", "faithful", "factual")
_NEGATIONS: Final = ("not", "non", "in", "un", "hall")
_CONTRADICTED: Final = ("contradict",)

Kind = Literal["pairs", "tokens"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Support:
    """The model's score of one sentence."""

    share: float
    """Score that the evidence supports it, from 0 to 1."""
    contradicted: float = 0.0
    chunks: tuple[int, ...] = ()
    """Positions of those that support it, best first."""
    words: tuple[str, ...] = ()


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
    ) -> None:
        """Build the judge; nothing is imported or loaded before the first reading.

        Args:
            model: Name on the hub, or a folder.
            revision: Of the model: part of the judge's version.
            kind: What the model classifies; None: its architecture tells.
            threshold: From which share on a sentence is supported.
            device: Where it runs, as torch names it.
            batch_size: Inputs at once.
            trust_remote_code: Whether the checkpoint's own code may run (HHEM 2.1 has some).
        """
        if not 0 < threshold < 1:
            raise ValueError(f"a threshold lies between 0 and 1, not at {threshold}")
        self._model_name = model
        self._revision = revision
        self._kind: Kind | None = kind
        self._threshold = threshold
        self._device = device
        self._batch_size = batch_size
        self._trust_remote_code = trust_remote_code
        self._builtin = BuiltinJudge()
        self._identity = JudgeIdentity(
            name=model, version=f"{revision}.{threshold:g}.{RULES}", kind="LLM"
        )
        self._reset()

    def _reset(self) -> None:
        self._process = os.getpid()
        self._lock = threading.Lock()
        self._loaded: _PairReader | _TokenReader | None = None

    budget_unit: None = None
    """A reading costs neither money nor tokens."""

    def expected_cost(self, interaction: Interaction) -> float:  # noqa: ARG002 - of the protocol
        """Return 0."""
        return 0.0

    @property
    def identity(self) -> JudgeIdentity:
        """The model, its revision, the threshold and the rules."""
        return self._identity

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
            JudgeError: The model could not be loaded.
            MissingExtraError: transformers or torch is not installed.
        """
        if os.getpid() != self._process:
            # A forked child: the parent's thread may have held the lock, and torch its own.
            self._reset()
        return await apart(self._assess, interaction)

    async def close(self) -> None:
        """Release the model."""
        self._loaded = None

    def _assess(self, interaction: Interaction) -> Assessment:
        model = self._load()
        base = self._builtin.read(replace(interaction, reference=""))
        sentences = splitter.split(interaction.answer)
        silent = {s.start for s in base.sentences or () if s.verdict is Verdict.NO_CLAIM}
        claims = [sentence for sentence in sentences if sentence.start not in silent]
        with self._lock:  # one at a time: a second one would only share the same cores
            supports = dict(zip(claims, model.read(interaction, claims), strict=True))
        verdicts = tuple(self._verdict(each, supports.get(each)) for each in sentences)
        shares = [support.share for support in supports.values()]
        return replace(
            base,
            judge=self._identity,
            sentences=verdicts,
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

    def _load(self) -> _PairReader | _TokenReader:
        with self._lock:
            if self._loaded is None:
                try:
                    self._loaded = self._load_anew()
                except (OSError, ValueError) as error:
                    why = " ".join(scrubbed(str(error)).split())[:240]
                    raise JudgeError(
                        self._model_name,
                        f"the model cannot be loaded: {why}",
                        cause=Cause.JUDGE_ERROR,
                        retryable=False,
                    ) from error
            return self._loaded

    def _load_anew(self) -> _PairReader | _TokenReader:
        try:
            torch: Any = imports.load("torch")
            transformers: Any = imports.load("transformers")
        except ImportError as error:
            raise MissingExtraError(error.name or "transformers", "encoder") from error
        options: dict[str, Any] = {
            "revision": self._revision,
            "trust_remote_code": self._trust_remote_code,
        }
        config = transformers.AutoConfig.from_pretrained(self._model_name, **options)
        kind = self._kind or _kind_of(config)
        auto = (
            transformers.AutoModelForTokenClassification
            if kind == "tokens"
            else transformers.AutoModelForSequenceClassification
        )
        model = auto.from_pretrained(self._model_name, **options).to(self._device).eval()
        if kind == "pairs" and callable(getattr(model, "predict", None)):
            return _PairReader(score=partial(_predicted, torch, model))
        tokenizer = transformers.AutoTokenizer.from_pretrained(self._model_name, **options)
        window = min(
            MAX_TOKENS,
            tokenizer.model_max_length,
            getattr(config, "max_position_embeddings", None) or MAX_TOKENS,
        )
        loaded = _Model(
            torch=torch,
            model=model,
            tokenizer=tokenizer,
            device=self._device,
            window=window,
            batch_size=self._batch_size,
        )
        if kind == "tokens":
            return _TokenReader(self._model_name, model=loaded, threshold=self._threshold)
        score = partial(_classified, loaded, _labels(config.id2label))
        return _PairReader(score=score, window=window)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Model:
    """A loaded model with its tokenizer."""

    torch: Any
    model: Any
    tokenizer: Any
    device: str
    window: int
    batch_size: int

    def logits(
        self,
        firsts: Sequence[str],
        seconds: Sequence[str],
        *,
        truncation: Literal["only_first", "longest_first"],
    ) -> tuple[Any, Any]:
        """Return the logits of text pairs and what the tokenizer made of them."""
        encoded = self.tokenizer(
            list(firsts),
            list(seconds),
            truncation=truncation,  # the spreading of the evidence has left room for both
            max_length=self.window,
            padding=True,
            return_tensors="pt",
            return_offsets_mapping=True,
        )
        offsets = encoded.pop("offset_mapping")
        with self.torch.inference_mode():
            logits = self.model(**encoded.to(self.device)).logits.float().cpu()
        return logits, (encoded, offsets)


Scores = Callable[[Sequence[tuple[str, str]]], list[tuple[float, float]]]
"""Returns, for each pair of evidence and claim, that the claim is supported and contradicted."""


def _classified(
    model: _Model, labels: tuple[int, int | None], pairs: Sequence[tuple[str, str]]
) -> list[tuple[float, float]]:
    """Return the scores by a model that classifies pairs."""
    supported, contradicted = labels
    scores: list[tuple[float, float]] = []
    for at in range(0, len(pairs), model.batch_size):
        evidence, claims = zip(*pairs[at : at + model.batch_size], strict=True)
        logits, _ = model.logits(evidence, claims, truncation="longest_first")
        if logits.shape[-1] == 1:  # one score: that it is consistent
            scores += [(share, 0.0) for share in logits.sigmoid().squeeze(-1).tolist()]
            continue
        for shares in logits.softmax(-1).tolist():
            against = 0.0 if contradicted is None else shares[contradicted]
            scores.append((shares[supported], against))
    return scores


def _predicted(
    torch: Any, model: Any, pairs: Sequence[tuple[str, str]]
) -> list[tuple[float, float]]:
    """Return the scores by a model with a method of its own for it (HHEM 2.1).

    It says nothing of contradiction.
    """
    if not pairs:
        return []
    with torch.inference_mode():
        return [(float(share), 0.0) for share in model.predict(list(pairs))]


class _PairReader:
    """Compares each sentence with each chunk, and with all of them together."""

    def __init__(self, *, score: Scores, window: int = MAX_TOKENS) -> None:
        self._score = score
        self._window = window

    def read(self, interaction: Interaction, claims: Sequence[Sentence]) -> list[Support]:
        """Return the support of each sentence, in order."""
        chunks = [chunk.text for chunk in interaction.chunks]
        longest = max((estimate_tokens(claim.text) for claim in claims), default=0.0)
        room = max(_MIN_EVIDENCE_TOKENS, self._window - longest - 8)
        windows = spread(chunks, room_tokens=room)
        evidence = [
            (position, part.text)
            for position, chunk in enumerate(chunks)
            for share in spread([chunk], room_tokens=room)
            for part in share
        ]
        alone = len(evidence)
        together = [
            "\n".join(part.text for part in share)
            for share in windows
            if len({part.position for part in share}) > 1
        ]
        texts = [text for _, text in evidence] + together
        scores = self._score([(text, claim.text) for claim in claims for text in texts])
        supports = []
        for number in range(len(claims)):
            of_claim = scores[number * len(texts) : (number + 1) * len(texts)]
            by_chunk: dict[int, float] = {}
            for (position, _), (share, _) in zip(evidence, of_claim[:alone], strict=True):
                by_chunk[position] = max(by_chunk.get(position, 0.0), share)
            supports.append(_supported(by_chunk, of_claim[:alone], of_claim[alone:]))
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

    def __init__(self, name: str, *, model: _Model, threshold: float) -> None:
        self._name = name
        self._model = model
        self._threshold = threshold

    def read(self, interaction: Interaction, claims: Sequence[Sentence]) -> list[Support]:
        """Return the support of each sentence: 1 minus the risk of its worst token."""
        answer = interaction.answer
        chunks = [chunk.text for chunk in interaction.chunks]
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
        least: dict[tuple[int, int], float] = {}
        for share in spread(chunks, room_tokens=room):
            prompt = _passages(interaction.query, [part.text for part in share])
            for span, risk in self._risks(prompt, answer):
                # A token that one window supports is supported.
                least[span] = min(risk, least.get(span, 1.0))
        supports = []
        for claim in claims:
            within = {s: r for s, r in least.items() if claim.start <= s[0] < claim.end}
            if not within:  # signs that the tokenizer has no token for
                supports.append(Support(share=0.0))
                continue
            bad = sorted(span for span, risk in within.items() if risk > 1 - self._threshold)
            supports.append(Support(share=1 - max(within.values()), words=_words(answer, bad)))
        return supports

    def _risks(self, prompt: str, answer: str) -> list[tuple[tuple[int, int], float]]:
        logits, (encoded, offsets) = self._model.logits([prompt], [answer], truncation="only_first")
        risks = logits.softmax(-1)[0, :, 1].tolist()
        spans = [(int(start), int(end)) for start, end in offsets[0].tolist()]
        return [
            (span, risk)
            for span, risk, sequence in zip(spans, risks, encoded.sequence_ids(0), strict=True)
            if sequence == 1 and span[1] > span[0]
        ]


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


def _kind_of(config: Any) -> Kind:
    architectures: Sequence[str] = getattr(config, "architectures", None) or ()
    for name in architectures:
        if "TokenClassification" in name:
            return "tokens"
        if "SequenceClassification" in name:
            return "pairs"
    raise ValueError(
        f"it classifies neither pairs nor tokens (architectures: {', '.join(architectures)}); "
        "say kind='pairs' or kind='tokens' if it does"
    )


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
