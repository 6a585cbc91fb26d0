"""Loads a classifier of text pairs: by ONNX Runtime where its folder has a file for it, else torch.

Both give the same: for each pair the logits, and which characters of the second text each row of
them stands for. Nothing is imported before a model is loaded.
"""

from __future__ import annotations

import contextlib
import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

from ragmonitor import imports
from ragmonitor.errors import MissingExtraError

MAX_TOKENS: Final = 4096
"""Tokens of one input, where the model's own limit is higher or not said."""
MAX_BATCH_TOKENS: Final = 8192
"""Tokens of all inputs that are computed at once, padding included, by an upper estimate: it bounds
the memory that a forward pass takes beside the weights."""

Kind = Literal["pairs", "tokens"]
Pair = tuple[str, str]
"""Evidence, and what is to be checked against it."""
Truncation = Literal["only_first", "longest_first"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Logits:
    """The output for one pair."""

    rows: Sequence[Any]
    """One float per label, of a classifier of pairs; of one of tokens such a row for each token."""
    spans: Sequence[tuple[int, int]]
    """The characters of each token in its text; shape (n_tokens, 2)."""
    texts: Sequence[int | None]
    """The text that each token is in: 0, 1, or None for signs of the tokenizer's own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """A loaded classifier with its tokenizer."""

    kind: Kind
    labels: Mapping[int, str]
    """The names of its labels, by their positions."""
    window: int
    """Tokens that one input may have."""
    logits: Callable[[Sequence[Pair], Truncation], list[Logits]]
    """Computes a batch at once."""
    predict: Callable[[Sequence[Pair]], Sequence[float]] | None = None
    """The checkpoint's own scores of pairs, 0 to 1 (HHEM 2.1); None: it has none."""


def load_model(
    name: str,
    *,
    revision: str,
    kind: Kind | None,
    device: str,
    trust_remote_code: bool,
    threads: int | None,
) -> Model:
    """Return the model of a name on the hub, or of a folder.

    Args:
        name: Name on the hub, or a folder.
        revision: Of the model on the hub.
        kind: What it classifies; None: its architecture tells.
        device: Where it runs, as torch names it; ONNX Runtime runs on `cpu`.
        trust_remote_code: Whether the checkpoint's own code may run.
        threads: For one forward pass, of the whole process; None: as the library has it.

    Raises:
        MissingExtraError: The libraries are not installed.
        OSError: There is no such model.
        ValueError: It classifies neither pairs nor tokens, or its files are broken.
    """
    file = onnx_file(name) if device == "cpu" else None
    if file is not None:
        return _by_onnx(Path(name), file, kind=kind, threads=threads)
    return _by_torch(
        name,
        kind=kind,
        device=device,
        threads=threads,
        options={"revision": revision, "trust_remote_code": trust_remote_code},
    )


def onnx_file(name: str) -> Path | None:
    """Return the model file for ONNX Runtime in a folder; None: it has none, or is no folder."""
    for folder in (Path(name), Path(name, "onnx")):
        files = sorted(folder.glob("*.onnx"))
        plain = folder / "model.onnx"  # others are quantised or optimised for some processor
        if files:
            return plain if plain in files else files[0]
    return None


def _loaded(extra: str, *modules: str) -> list[Any]:
    try:
        return [imports.load(module) for module in modules]
    except ImportError as error:
        raise MissingExtraError(error.name or modules[-1], extra) from error


def _by_torch(
    name: str, *, kind: Kind | None, device: str, threads: int | None, options: dict[str, Any]
) -> Model:
    torch, transformers = _loaded("encoder", "torch", "transformers")
    if threads is not None:
        torch.set_num_threads(threads)
    tokenizer: Any = None
    with _silent(transformers.utils.logging):
        config = transformers.AutoConfig.from_pretrained(name, **options)
        kind = kind or _kind_of(getattr(config, "architectures", None) or ())
        auto = (
            transformers.AutoModelForTokenClassification
            if kind == "tokens"
            else transformers.AutoModelForSequenceClassification
        )
        model = _moved(auto.from_pretrained(name, **options), device).eval()
        has_scores = kind == "pairs" and callable(getattr(model, "predict", None))
        if not has_scores:
            tokenizer = transformers.AutoTokenizer.from_pretrained(name, **options)

    def logits(pairs: Sequence[Pair], truncation: Truncation) -> list[Logits]:
        encoded = tokenizer(
            [first for first, _ in pairs],
            [second for _, second in pairs],
            truncation=truncation,  # the spreading of the evidence has left room for both
            max_length=window,
            padding=True,
            return_offsets_mapping=True,
        )
        spans = encoded.pop("offset_mapping")
        # By torch itself: transformers makes tensors of lists value by value.
        tensors = {name: torch.tensor(lists, device=device) for name, lists in encoded.items()}
        with torch.inference_mode():
            rows = model(**tensors).logits.float().cpu().tolist()
        return [
            Logits(rows=rows[at], spans=spans[at], texts=encoded.sequence_ids(at))
            for at in range(len(pairs))
        ]

    def predict(pairs: Sequence[Pair]) -> list[float]:
        with torch.inference_mode():
            return [float(share) for share in model.predict(list(pairs))]

    if has_scores:
        return Model(kind=kind, labels={}, window=MAX_TOKENS, logits=logits, predict=predict)
    positions = getattr(config, "max_position_embeddings", None)
    window = _window(tokenizer.model_max_length, positions)
    return Model(kind=kind, labels=config.id2label, window=window, logits=logits)


def _moved(model: Any, device: str) -> Any:
    """Return the model on the device. Raises `ValueError`: torch, or the machine, lacks it."""
    try:
        return model.to(device)
    except (RuntimeError, AssertionError) as error:  # an assertion: torch was built without it
        raise ValueError(f"device {device!r}: {error}") from error


@contextlib.contextmanager
def _silent(logging: Any) -> Iterator[None]:
    """Show no bars of progress meanwhile: the terminal is the application's."""
    shows = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if shows:
            logging.enable_progress_bar()


def _by_onnx(folder: Path, file: Path, *, kind: Kind | None, threads: int | None) -> Model:
    runtime, tokenizers, numpy = _loaded("encoder-onnx", "onnxruntime", "tokenizers", "numpy")
    config = _json(folder / "config.json")
    options = runtime.SessionOptions()
    options.intra_op_num_threads = threads or 0
    try:
        session = runtime.InferenceSession(
            str(file), sess_options=options, providers=["CPUExecutionProvider"]
        )
        tokenizer = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
    except Exception as error:  # both libraries raise types of their own, and bare exceptions
        raise ValueError(f"{file}: {error}") from error
    wanted = {each.name for each in session.get_inputs()}
    limit = _json(folder / "tokenizer_config.json", needed=False).get("model_max_length")
    window = _window(limit, config.get("max_position_embeddings"))
    tokenizer.enable_padding(
        pad_id=config.get("pad_token_id") or 0, pad_token=_pad_token(tokenizer, config)
    )

    def logits(pairs: Sequence[Pair], truncation: Truncation) -> list[Logits]:
        tokenizer.enable_truncation(window, strategy=truncation)
        encoded = tokenizer.encode_batch(list(pairs))
        tensors = {
            "input_ids": [each.ids for each in encoded],
            "attention_mask": [each.attention_mask for each in encoded],
            "token_type_ids": [each.type_ids for each in encoded],
        }
        feed = {
            name: numpy.asarray(values, dtype=numpy.int64)
            for name, values in tensors.items()
            if name in wanted
        }
        rows = session.run(None, feed)[0].tolist()
        return [
            Logits(rows=each, spans=one.offsets, texts=one.sequence_ids)
            for each, one in zip(rows, encoded, strict=True)
        ]

    names = {int(position): name for position, name in config.get("id2label", {}).items()}
    return Model(
        kind=kind or _kind_of(config.get("architectures") or ()),
        labels=names or {0: "score"},
        window=window,
        logits=logits,
    )


def _json(file: Path, *, needed: bool = True) -> dict[str, Any]:
    if not needed and not file.exists():
        return {}
    value = json.loads(file.read_text("utf-8"))
    if not isinstance(value, dict):
        raise ValueError(f"{file} holds no object")  # noqa: TRY004 - a broken file, no wrong call
    return value


def _pad_token(tokenizer: Any, config: Mapping[str, Any]) -> str:
    return str(tokenizer.id_to_token(config.get("pad_token_id") or 0) or "[PAD]")


def _window(limit: float | None, positions: int | None) -> int:
    # A tokenizer without a limit says a number beyond all sense.
    return int(min(MAX_TOKENS, limit or MAX_TOKENS, positions or MAX_TOKENS))


def _kind_of(architectures: Sequence[str]) -> Kind:
    for name in architectures:
        if "TokenClassification" in name:
            return "tokens"
        if "SequenceClassification" in name:
            return "pairs"
    raise ValueError(
        f"it classifies neither pairs nor tokens (architectures: {', '.join(architectures)}); "
        "say kind='pairs' or kind='tokens' if it does"
    )


def softmax(row: Sequence[float]) -> list[float]:
    """Return the probabilities of the labels; shape (n_labels,)."""
    highest = max(row)
    exponentials = [math.exp(value - highest) for value in row]
    total = sum(exponentials)
    return [value / total for value in exponentials]
