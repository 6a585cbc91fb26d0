"""How many answers an encoder reads in a second, on the processor and on an accelerator.

    PYTHONPATH=. python tests/bench/encoder.py [--devices cpu,cuda] [--answers 64]

    PYTHONPATH=. python tests/bench/encoder.py --sizes large

Models of the size of published ones, with random weights: the time does not depend on them. `base`
is ModernBERT's base size (22 layers of 768: LettuceDetect and many NLI models), `large` its large
size (28 layers of 1,024). `tokens` reads the answer once with as many chunks as fit; `pairs` reads
each sentence against each chunk and against all of them. The answers have four chunks of 800
characters of docs/ and some 400 characters each, and are read in batches of 8, as a monitor hands
them over. The tokenizer is learned from docs/. Printed: answers a second, by the median of all
batches after an answer to warm up; the processor reads one batch only. Needs torch, transformers.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import tokenizers
import torch
import transformers

from ragmonitor.judges.encoder import EncoderJudge
from ragmonitor.records import Assessment
from tests.bench.wire import DOCS, record

SIZES = {"base": (22, 768, 12, 1152), "large": (28, 1024, 16, 2624)}
BATCH = 8


def saved(folder: Path, size: str, kind: str) -> str:
    """Write a model with random weights, and its tokenizer; return the folder."""
    learned = tokenizers.ByteLevelBPETokenizer()
    texts: Iterator[str] = (file.read_text("utf-8") for file in sorted(DOCS.glob("*.md")))
    special = ["[PAD]", "[CLS]", "[SEP]", "[UNK]", "[MASK]"]
    learned.train_from_iterator(texts, vocab_size=20_000, special_tokens=special)
    learned.enable_truncation(8_192)
    inner = tokenizers.Tokenizer.from_str(learned.to_str())
    inner.no_truncation()
    inner.post_processor = tokenizers.processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", 1), ("[SEP]", 2)],
    )
    transformers.PreTrainedTokenizerFast(
        tokenizer_object=inner,
        pad_token="[PAD]",
        cls_token="[CLS]",
        sep_token="[SEP]",
        unk_token="[UNK]",
        model_max_length=8_192,
        model_input_names=["input_ids", "attention_mask"],
    ).save_pretrained(folder)
    layers, width, heads, inner_width = SIZES[size]
    names = ["entailment", "contradiction"] if kind == "pairs" else ["LABEL_0", "LABEL_1"]
    config = transformers.ModernBertConfig(
        num_hidden_layers=layers,
        hidden_size=width,
        num_attention_heads=heads,
        intermediate_size=inner_width,
        pad_token_id=0,
        cls_token_id=1,
        bos_token_id=1,
        sep_token_id=2,
        eos_token_id=2,
        id2label=dict(enumerate(names)),
        label2id={name: at for at, name in enumerate(names)},
    )
    auto = (
        transformers.ModernBertForSequenceClassification
        if kind == "pairs"
        else transformers.ModernBertForTokenClassification
    )
    auto(config).save_pretrained(folder)
    return str(folder)


def rate(judge: EncoderJudge, answers: int) -> float:
    """Return answers a second, the median of the batches."""
    source = (DOCS / "statistics.md").read_text("utf-8")
    room = len(source) - 4_000
    given = [replace(record(source[n * 197 % room :], 800), id=f"{n:032x}") for n in range(answers)]
    judge.read_batch(given[:1])
    seconds = []
    for at in range(0, len(given), BATCH):
        began = time.perf_counter()
        outcomes = judge.read_batch(given[at : at + BATCH])
        seconds.append(time.perf_counter() - began)
        failed = next((each for each in outcomes if not isinstance(each, Assessment)), None)
        if failed is not None:
            raise failed
    return BATCH / statistics.median(seconds)


def main() -> None:
    """Print a line for each size, kind and device."""
    parser = argparse.ArgumentParser(description=__doc__)
    available = "cpu,cuda" if torch.cuda.is_available() else "cpu"
    parser.add_argument("--devices", default=available)
    parser.add_argument("--sizes", default="base")
    parser.add_argument("--answers", type=int, default=64)
    parser.add_argument("--threads", type=int, default=1, help="of the processor (1 as a monitor)")
    options = parser.parse_args()
    card = torch.cuda.get_device_name() if torch.cuda.is_available() else "no GPU"
    print(f"torch {torch.__version__}, transformers {transformers.__version__}, {card}")
    for size in options.sizes.split(","):
        for kind in ("tokens", "pairs"):
            with tempfile.TemporaryDirectory() as folder:
                name = saved(Path(folder), size, kind)
                for device in options.devices.split(","):
                    judge = EncoderJudge(name, device=device, threads=options.threads)
                    answers = options.answers if device != "cpu" else min(options.answers, BATCH)
                    shown = f"{rate(judge, answers):.2f} answers a second"
                    print(f"{size}, {kind}, {device}: {shown}", flush=True)


if __name__ == "__main__":
    main()
