// A LangChain.js application under OpenInference's instrumentation. The model is scripted: no key.
// Spans go to every address in ENDPOINTS, as protobuf packed by gzip: to ragmonitor, and to what
// shows traces.
import { LangChainInstrumentation } from "@arizeai/openinference-instrumentation-langchain";
import * as callbackManager from "@langchain/core/callbacks/manager";
import { Document } from "@langchain/core/documents";
import { StringOutputParser } from "@langchain/core/output_parsers";
import { ChatPromptTemplate } from "@langchain/core/prompts";
import { BaseRetriever } from "@langchain/core/retrievers";
import { RunnablePassthrough, RunnableSequence } from "@langchain/core/runnables";
import { FakeListChatModel } from "@langchain/core/utils/testing";
import { OTLPTraceExporter } from "@opentelemetry/exporter-trace-otlp-proto";
import { resourceFromAttributes } from "@opentelemetry/resources";
import { BatchSpanProcessor, NodeTracerProvider } from "@opentelemetry/sdk-trace-node";

const endpoints = (process.env.ENDPOINTS ?? "http://localhost:4318").split(",");
const provider = new NodeTracerProvider({
  resource: resourceFromAttributes({ "service.name": "bot-js", "service.version": "2.1" }),
  spanProcessors: endpoints.map(
    (url) =>
      new BatchSpanProcessor(
        new OTLPTraceExporter({ url: `${url}/v1/traces`, compression: "gzip" }),
      ),
  ),
});
provider.register();
new LangChainInstrumentation({ tracerProvider: provider }).manuallyInstrument(callbackManager);

class Search extends BaseRetriever {
  lc_namespace = ["examples"];
  async _getRelevantDocuments() {
    return [
      new Document({ pageContent: "The Eiffel Tower was built from 1887 to 1889.", id: "tower-1" }),
      new Document({ pageContent: "It is 330 metres tall.", id: "tower-2" }),
    ];
  }
}

const chain = RunnableSequence.from([
  {
    context: new Search().pipe((found) => found.map((each) => each.pageContent).join("\n\n")),
    question: new RunnablePassthrough(),
  },
  ChatPromptTemplate.fromMessages([
    ["system", "Answer from this: {context}"],
    ["user", "{question}"],
  ]),
  new FakeListChatModel({
    responses: ["It was built from 1887 to 1889. Napoleon opened it."],
  }),
  new StringOutputParser(),
]);

console.log(await chain.invoke("When was the Eiffel Tower built?", { runName: "tower" }));
let streamed = "";
for await (const piece of await chain.stream("Who opened it?", { runName: "opening" })) streamed += piece;
console.log(streamed);
await provider.shutdown();
