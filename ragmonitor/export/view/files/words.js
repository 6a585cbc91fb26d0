// What the page says, in English and Chinese.

const SIGNALS = {
  hallucination: ["Hallucination rate", "幻觉率"], refusal: ["Refusal rate", "拒答率"],
  minor_hallucination: ["Minor findings only", "仅轻微问题"],
  faithfulness: ["Faithfulness", "忠实度"], answer_relevancy: ["Answer relevancy", "回答相关性"],
  context_relevance: ["Context relevance", "上下文相关性"], context_utilization: ["Context utilization", "上下文利用率"],
  context_precision: ["Context precision", "上下文精确率"], context_recall: ["Context recall", "上下文召回率"],
  answer_correctness: ["Answer correctness", "回答正确性"], factual_correctness: ["Factual correctness", "事实正确性"],
  noise_sensitivity: ["Noise sensitivity", "噪声敏感度"], language_match: ["Language match", "语言一致性"],
  wrong_refusal: ["Wrong refusal", "错误拒答"], empty_retrieval: ["Empty retrieval", "空检索"],
  weak_retrieval: ["Weak retrieval", "弱检索"], version_worse: ["Version got worse", "版本变差"],
  anchors: ["Reference answers", "参考样例"],
  refusal_correctness: ["Refusal correctness", "拒答正确性"], availability: ["Availability", "可用性"],
};
const DIAGNOSES = {
  ok: ["OK", "正常"], unsupported_addition: ["Unsupported addition", "无依据的补充"], contradiction: ["Contradiction", "与原文矛盾"],
  retrieval_miss: ["Retrieval miss", "检索未命中"], ignored_context: ["Ignored context", "忽略上下文"], off_topic: ["Off topic", "答非所问"],
  wrong_refusal: ["Wrong refusal", "错误拒答"], refusal: ["Refusal", "拒答"], unknown: ["Unknown", "未知"],
};
const CAUSES = {
  refusal: ["Refusal", "拒答"], no_claims: ["Claims nothing", "无论断"], no_context: ["No context", "无上下文"],
  no_query: ["No question", "无问题"], no_answer: ["No answer", "无回答"], no_reference: ["No reference answer", "无参考回答"], no_citations: ["No citations", "无引用"],
  not_asked: ["Not asked", "未询问"], application_error: ["Application error", "应用出错"], partial: ["Cut short", "中途结束"],
  capture_incomplete: ["Capture incomplete", "采集不完整"], not_sampled: ["Not sampled", "未抽中"], over_budget: ["Over budget", "超出预算"],
  judge_busy: ["Judge busy", "评审繁忙"], judge_down: ["Judge down", "评审不可用"], evidence_too_long: ["Evidence too long", "证据过长"],
  too_long: ["Texts too long", "文本过长"], queue_full: ["Queue full", "队列已满"], judge_timeout: ["Judge timed out", "评审超时"],
  judge_error: ["Judge failed", "评审失败"], judge_refused: ["Judge refused", "评审拒绝"],
  unreadable: ["Unreadable reply", "回复无法解析"], evaluator_error: ["Evaluator failed", "评估器出错"], shutdown: ["Shutdown", "已关闭"],
};
const REASONS = {
  content: ["content", "内容"], number: ["number", "数字"], unit: ["unit", "单位"], date: ["date", "日期"], negation: ["negation", "否定"], name: ["name", "名称"], role: ["role", "角色"], field: ["field", "字段"],
};
const VERDICTS = { absent: ["not found in the chunks", "检索内容中没有"], contradicted: ["contradicts a chunk", "与检索内容矛盾"] };
const STATUSES = { error: ["Error", "出错"], partial: ["Partial", "不完整"], cancelled: ["Cancelled", "已取消"] };
const BASES = { judged: ["Scored by the LLM judge", "由大模型评审评分"], builtin: ["Scored by the built-in judge", "由内置评审评分"], unscored: ["Not scored", "未评分"] };
const UNITS = { tokens: ["tokens", "Token"], calls: ["calls", "次调用"] };
const PERS = { day: ["day", "天"], hour: ["hour", "小时"] };
const PEOPLE = { good: ["found good by a person", "用户好评"], bad: ["found bad by a person", "用户差评"], neither: ["commented by a person", "用户留言"] };
const NAMED = {
  document: ["the document", "文档"], slice: ["the answers with", "分片"], version: ["the version", "版本"], event: ["the event", "事件"],
};
const MARKS = { deployment: ["deployment", "发布"], judge_change: ["judge change", "评审变更"], event: ["event", "事件"] };

const TEXTS = {
  skip: ["Skip to the answers", "跳到回答列表"],
  language: ["Language", "语言"],
  sections: ["Sections", "章节"],
  overview: ["Overview", "概览"],
  alarms: ["Alarms", "告警"],
  signal: ["Signal", "信号"],
  evaluations: ["Evaluations", "评估"],
  where: ["Slices and documents", "分片与文档"],
  goldens: ["Golden questions", "参考问题"],
  incidents: ["Incidents", "事件"],
  back: ["Back to the overview", "返回概览"],
  noIncident: ["No incident of this name is kept.", "没有保留该事件。"],

  live: ["Live, {time}", "实时，{time}"],
  lost: ["No connection since {time}", "自 {time} 起无连接"],
  locked: ["No access: open /?token=… once", "无权访问：请先打开一次 /?token=…"],
  waiting: ["Waiting for the first answers", "等待第一批回答"],
  about: ["ragmonitor {version} · monitoring for {time}", "ragmonitor {version} · 已监测 {time}"],
  aboutVersion: ["version {service} · ragmonitor {version} · monitoring for {time}", "版本 {service} · ragmonitor {version} · 已监测 {time}"],
  foot: ["Kept in memory by this process until it ends. Times are {zone}, those of incidents UTC.", "由本进程保存在内存中，进程结束即消失。时间为 {zone}，事件中为 UTC。"],
  withheld: ["Texts are withheld (content = {content}): ids, scores and verdicts only.", "文本不予显示（content = {content}）：仅有编号、分数与结论。"],

  fine: ["Fine: {all|the monitored signal is|all {all} monitored signals are} within {all|its limit|their limits}.", "正常：{all} 个受监测信号均未超限。"],
  learning: ["No alarm. {n} of {all} signals are still learned and cannot alarm yet.", "无告警。{all} 个信号中有 {n} 个仍在学习，尚不能告警。"],
  rising: ["No alarm yet. Evidence is rising: {signals}.", "尚无告警。证据正在上升：{signals}。"],
  nothingWatched: ["No signal is monitored.", "没有受监测的信号。"],
  alarm: ["Alarm: {signal}", "告警：{signal}"],
  alsoAlarm: ["Also: {signals}.", "另有：{signals}。"],
  spanRate: ["{bad} of {scored} scored answers are bad since {since}", "自 {since} 起 {scored} 个已评分回答中有 {bad} 个不合格"],
  spanMean: ["A mean of {mean} over {scored} scored answers since {since}", "自 {since} 起 {scored} 个已评分回答的平均值为 {mean}"],
  spanBefore: ["; {value} before", "；此前 {value}"],
  spanLimit: ["{span}. Limit: {bound}.", "{span}。{bound}。"],
  raisedAt: ["Raised at {time}. Limit: {bound}.", "{time} 触发。{bound}。"],
  namedCause: ["Cause: {kind} {name}.", "原因：{kind} {name}。"],
  causeOpen: ["Where it comes from is not known yet.", "尚不知来自何处。"],
  causeJudge: ["The judge has become stricter: it now rejects {flipped} of {reread} old answers that it accepted before.", "评审变严了：以前合格的 {reread} 条旧回答中，现有 {flipped} 条被改判。"],
  causeApplication: ["The application has changed, not the judge: the judge still accepts {kept} of {reread} old answers.", "变化在应用，不在评审：{reread} 条旧回答中评审仍接受 {kept} 条。"],
  worst: ["The worst answers", "最差的回答"],
  toIncident: ["Open the incident", "打开事件"],
  mute: ["The judge {judge} has given no verdict since {time}: {cause}.", "评审 {judge} 自 {time} 起没有给出结论：{cause}。"],

  few: ["too few answers", "数据不足"],
  interval: ["{lower} to {upper}", "{lower} 至 {upper}"],
  lastHour: ["last hour", "最近一小时"],
  scoredCount: ["{n} scored by {judge}", "{judge} 已评分 {n} 条"],
  answerCount: ["{n} answers", "共 {n} 条"],
  limit: ["limit: {bound}", "{bound}"],
  atMost: ["at most {value}", "容忍上限 {value}"],
  atLeast: ["at least {value}", "容忍下限 {value}"],
  atMostBelow: ["at most {value} below its own history", "最多比自身历史低 {value}"],
  holdsEarlier: ["The hour also holds answers from before the rise.", "这一小时还包含上升之前的回答。"],
  overNoAlarm: ["Beyond the limit, but the evidence is not enough for an alarm.", "已超限，但证据不足以告警。"],
  received: ["{n} answers received", "收到 {n} 条回答"],
  speed: ["{rate} answers/s", "每秒 {rate} 条"],
  onlyBuiltin: ["no LLM judge is configured: every score is the built-in judge's", "未配置大模型评审：所有分数来自内置评审"],
  samples: ["a sample of {rate}", "抽样 {rate}"],
  bears: ["the budget permits {rate} at {speed}; asked: {asked}", "按{speed}，预算只够评审 {rate}；要求 {asked}"],
  missing: ["{share} of the drawn answers have no verdict", "抽中的回答中 {share} 无结论"],
  spent: ["{usd} spent since the start", "启动以来花费 {usd}"],
  budget: ["budget: {limit} per {per}", "预算：每{per} {limit}"],
  chartTitle: ["{signal}, last hour", "{signal}，最近一小时"],
  nothingYet: ["nothing yet", "暂无数据"],

  builtin: ["the built-in judge", "内置评审"],
  evaluation: ["Evaluation", "评估"],
  byJudge: ["{judge}, 24 h", "{judge}，24 小时"],
  byNobody: ["Every answer, 24 h", "全部回答，24 小时"],
  rate: ["Rate", "比率"],

  threshold: ["An alarm is raised when its evidence reaches 100% of the threshold. While every limit is met, that happens at most about once in {days} days.", "证据达到阈值的 100% 即告警。只要各项均未超限，平均约 {days} 天至多误报一次。"],
  judgeName: ["Judge", "评审"],
  state: ["State", "状态"],
  limitTitle: ["Limit", "界限"],
  evidence: ["Evidence", "证据"],
  ofThreshold: ["{value} of the threshold", "阈值的 {value}"],
  stateLearning: ["learning what is usual: {share}", "正在学习常态：{share}"],
  stateActive: ["active since {time}", "{time} 起告警"],
  stateRising: ["rising since {time}", "{time} 起上升"],
  stateFine: ["within its limit", "未超限"],
  open: ["open", "未结束"],
  closed: ["over", "已结束"],
  none: ["None so far.", "暂无。"],

  slice: ["Slice", "分片"],
  share: ["Of all answers", "占全部回答"],
  document: ["Document", "文档"],
  contradicted: ["Contradicted", "与其矛盾"],
  restsOn: ["Supports", "以其为依据"],
  retrieved: ["Retrieved", "检索次数"],
  question: ["Question", "问题"],
  outcome: ["Outcome", "结果"],
  newest: ["Newest score", "最新得分"],
  expected: ["Its own history", "历史得分"],
  golden_unasked: ["not asked since the start", "启动后尚未提问"],
  golden_answered: ["answered", "已回答"],
  golden_refused: ["connection refused", "连接被拒绝"],
  golden_timeout: ["no answer in time", "超时未回答"],
  golden_http_status: ["HTTP error", "HTTP 错误"],
  golden_no_answer: ["no text in the reply", "回复中没有文本"],
  golden_exception: ["exception", "异常"],

  answers: ["Recent answers", "最近的回答"],
  search: ["Search", "搜索"],
  order: ["Order", "排序"],
  worstFirst: ["Worst first", "最差优先"],
  newestFirst: ["Newest first", "最新优先"],
  shown: ["{n} of {all} kept", "保留 {all} 条，符合 {n} 条"],
  more: ["Show more ({n})", "显示更多（{n}）"],
  emptyNone: ["No answer so far.", "目前没有回答。"],
  emptyFilter: ["No answer matches.", "没有符合条件的回答。"],
  answer: ["Answer", "回答"],
  noText: ["(empty)", "（空）"],
  chunks: ["Retrieved", "检索内容"],
  noChunks: ["Nothing was retrieved.", "没有检索到内容。"],
  chunk: ["Chunk {n} of {all}", "第 {n} / {all} 块"],
  relevance: ["relevance {value}", "相关度 {value}"],
  moreChunks: ["{n} more {n|chunk|chunks}", "其余 {n} 块"],
  cut: ["… {n} characters left out …", "……省略 {n} 个字符……"],
  sentence: ["Sentence {n}:", "第 {n} 句："],
  because: ["({reasons})", "（{reasons}）"],
  scoredBy: ["Scored by {judge}", "由 {judge} 评分"],
  trace: ["trace", "链路"],
  noTrace: ["no trace was sent", "未发送链路"],
  times: ["given {n} {n|time|times}", "出现 {n} 次"],
  tokens: ["{input} tokens in, {output} out", "输入 {input} Token，输出 {output} Token"],
  session: ["session", "会话"],
  s: ["{n} s", "{n} 秒"], min: ["{n} min", "{n} 分钟"], h: ["{n} h", "{n} 小时"], d: ["{n} d", "{n} 天"],
};

const TABLES = { people: PEOPLE, signal: SIGNALS, diagnosis: DIAGNOSES, cause: CAUSES, reason: REASONS, verdict: VERDICTS, status: STATUSES, basis: BASES, unit: UNITS, per: PERS, named: NAMED, mark: MARKS };

let column = 0;

export function speak(language) { column = language === "zh" ? 1 : 0; }
export const language = () => (column ? "zh" : "en");

/** A text with its {names} filled in; {name|one|many} depends on the number of that name. */
export function t(key, values = {}) {
  const chosen = TEXTS[key][column].replace(/\{(\w+)\|([^|]*)\|((?:[^{}]|\{\w+\})*)\}/g, (_, name, one, many) => (
    Number(values[name]) === 1 ? one : many
  ));
  return chosen.replace(/\{(\w+)\}/g, (_, name) => String(values[name] ?? ""));
}

/** What a name of ours is called in a table; any other name is shown as it is. */
export function called(table, name) {
  if (table === "judge") return name === "builtin" ? t("builtin") : name === "none" ? "–" : name;
  if (table === "signal" && name.startsWith("golden_")) return `${t("goldens")} · ${called(table, name.slice(7))}`;
  const known = Object.hasOwn(TABLES[table], name) ? TABLES[table][name] : null;
  return known ? known[column] : String(name).replaceAll("_", " ");
}

export const list = (items) => new Intl.ListFormat(language(), { type: "conjunction" }).format(items);
