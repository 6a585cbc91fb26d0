"""Spans of another instrumentation, told to the processor that reads them."""

from opentelemetry import context, trace
from opentelemetry.sdk.trace import TracerProvider

from ragmonitor.capture.span_readers.processor import InteractionSpanProcessor
from ragmonitor.testing import ManualClock

SCOPE = "openinference.instrumentation.llama_index"
KIND = "openinference.span.kind"


class Told:
    """A provider with the processor on it, and what it hands over."""

    def __init__(self, limits=None, **options):
        self.handed = []
        self.forgotten = []
        self.woken = []
        self.clock = ManualClock()
        self.processor = InteractionSpanProcessor(
            self.take,
            wake=lambda: self.woken.append(1),
            clock=self.clock,
            on_forgotten=self.forgotten.append,
            **options,
        )
        self.provider = TracerProvider(span_limits=limits)
        self.provider.add_span_processor(self.processor)

    def take(self, finished):
        self.handed.append(finished)

    def start(self, name, parent=None, kind="", scope=SCOPE, **attributes):
        if kind:
            attributes[KIND] = kind
        return self.provider.get_tracer(scope).start_span(
            name,
            context=trace.set_span_in_context(parent or trace.INVALID_SPAN, context.Context()),
            attributes={key.replace("__", "."): value for key, value in attributes.items()},
        )

    def retrieve(self, parent):
        self.start(
            "retrieve",
            parent,
            "RETRIEVER",
            input__value="Why?",
            retrieval__documents__0__document__content="Blue sky.",
        ).end()

    def ask(self, parent, **kwargs):
        span = self.start("ask", parent, "LLM", **kwargs)
        span.set_attribute("llm.output_messages.0.message.role", "assistant")
        span.set_attribute("llm.output_messages.0.message.content", "The sky is blue.")
        span.end()

    def root(self, parent=None):
        return self.start("qa", parent, "CHAIN", input__value="Why?")

    def tell(self, parent=None):
        root = self.root(parent)
        self.retrieve(root)
        self.ask(root)
        root.end()
        return root

    def after(self, seconds):
        self.clock.advance(seconds)
        self.processor.sweep()
        return [finished.interaction() for finished in self.handed]
