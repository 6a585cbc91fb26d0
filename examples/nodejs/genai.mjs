// An application of plain code that writes OpenTelemetry's GenAI conventions itself.
// Spans go to OTEL_EXPORTER_OTLP_ENDPOINT (http://localhost:4318), as JSON.
import { SpanKind } from "@opentelemetry/api";
import { OTLPTraceExporter } from "@opentelemetry/exporter-trace-otlp-http";
import { resourceFromAttributes } from "@opentelemetry/resources";
import { BatchSpanProcessor, NodeTracerProvider } from "@opentelemetry/sdk-trace-node";

const provider = new NodeTracerProvider({
  resource: resourceFromAttributes({ "service.name": "bot-js" }),
  spanProcessors: [new BatchSpanProcessor(new OTLPTraceExporter())],
});
provider.register();
const tracer = provider.getTracer("examples.shop");

const said = (role, text) => [{ role, parts: [{ type: "text", content: text }] }];

function step(name, attributes, work) {
  return tracer.startActiveSpan(name, { kind: SpanKind.CLIENT, attributes }, (span) => {
    try {
      return work(span);
    } finally {
      span.end();
    }
  });
}

function search(question) {
  const attributes = {
    "gen_ai.operation.name": "retrieval",
    "gen_ai.retrieval.query.text": question,
  };
  return step("retrieval manuals", attributes, (span) => {
    const found = [{ id: "pump-7", score: 0.9, content: "The pump is serviced every six months." }];
    span.setAttribute("gen_ai.retrieval.documents", JSON.stringify(found));
    return found;
  });
}

function ask(question, found) {
  const prompt = `Use: ${found.map((each) => each.content).join("\n")}\n\n${question}`;
  const attributes = {
    "gen_ai.operation.name": "chat",
    "gen_ai.provider.name": "scripted",
    "gen_ai.request.model": "scripted-1",
    "gen_ai.input.messages": JSON.stringify(said("user", prompt)),
  };
  return step("chat scripted-1", attributes, (span) => {
    const answer = "The pump is serviced every six months.";
    span.setAttribute("gen_ai.output.messages", JSON.stringify(said("assistant", answer)));
    span.setAttribute("gen_ai.usage.input_tokens", 30);
    span.setAttribute("gen_ai.usage.output_tokens", 8);
    return answer;
  });
}

function answer(question) {
  const attributes = {
    "gen_ai.operation.name": "invoke_workflow",
    "gen_ai.workflow.name": "shop",
    "gen_ai.conversation.id": "s1",
    "gen_ai.input.messages": JSON.stringify(said("user", question)),
  };
  return step("invoke_workflow shop", attributes, (span) => {
    const text = ask(question, search(question));
    span.setAttribute("gen_ai.output.messages", JSON.stringify(said("assistant", text)));
    return text;
  });
}

for (let left = Number(process.env.QUESTIONS ?? 1); left > 0; left--) {
  console.log(answer("How often is the pump serviced?"));
  if (left > 1) await new Promise((resume) => setTimeout(resume, 1000));
}
await provider.shutdown();
