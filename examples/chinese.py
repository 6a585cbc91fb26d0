"""中文应用：LangChain 客服机器人，按会话和路由统计；运行 `python chinese.py`。

A support bot in Chinese on LangChain; numbers by session and route.
"""

from __future__ import annotations

import os

from langchain.chat_models import init_chat_model
from langchain_core.documents import Document
from langchain_core.language_models import BaseChatModel, FakeListChatModel
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import RunnablePassthrough

from ragmonitor import Monitor
from ragmonitor_langchain import instrument

DOCUMENTS = [
    Document("商品签收后七天内可以申请退货，运费由买家承担。", metadata={"source": "退货.md"}),
    Document("订单满九十九元包邮，一般三天内送达。", metadata={"source": "配送.md"}),
]


def pairs(text: str) -> set[str]:
    """返回 `text` 里所有相邻的两个字。"""
    return {text[i : i + 2] for i in range(len(text) - 1)}


class Search(BaseRetriever):
    """换成你的向量库。这里按共同的双字排序。"""

    def _get_relevant_documents(self, query, *, run_manager):
        found = [document for document in DOCUMENTS if pairs(query) & pairs(document.page_content)]
        return sorted(found, key=lambda document: -len(pairs(query) & pairs(document.page_content)))


def chat_model() -> BaseChatModel:
    """环境变量 MODEL 指定的模型；没有设定时使用写好的回答。"""
    if name := os.environ.get("MODEL"):
        return init_chat_model(name)
    return FakeListChatModel(
        responses=["签收后七天内可以申请退货。退款会在三十天后到账。", "订单满九十九元包邮。"]
    )


monitor = Monitor(service="客服机器人")
instrument(monitor)
prompt = ChatPromptTemplate.from_template("根据资料回答。\n资料：{context}\n问题：{question}")
chain = (
    {"context": Search(), "question": RunnablePassthrough()}
    | prompt
    | chat_model()
    | StrOutputParser()
)
for question in ("签收后几天内可以申请退货？", "订单满多少元包邮？"):
    print(chain.invoke(question, {"metadata": {"session_id": "会话-1", "route": "/客服"}}))
    print(monitor.last())
monitor.close()
