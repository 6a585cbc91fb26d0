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
  version_worse: ["Version got worse", "版本变差"],
  weak_retrieval: ["Weak retrieval", "弱检索"],
  anchors: ["Reference answers", "参考样例"],
  refusal_correctness: ["Refusal correctness", "拒答正确性"], availability: ["Availability", "可用性"],
  references: ["Reference answers rejected", "被拒绝的参考回答"],
};
const DIAGNOSES = {
  ok: ["OK", "正常"], unsupported_addition: ["Unsupported addition", "无依据的补充"], contradiction: ["Contradiction", "与原文矛盾"],
  retrieval_miss: ["Retrieval miss", "检索未命中"], ignored_context: ["Ignored context", "忽略上下文"], off_topic: ["Off topic", "答非所问"],
  wrong_refusal: ["Wrong refusal", "错误拒答"], refusal: ["Refusal", "拒答"], unknown: ["Unknown", "未知"],
};
const CAUSES = {
  scored: ["Scored", "已评分"], refusal: ["Refusal", "拒答"], no_claims: ["Claims nothing", "无论断"], no_context: ["No context", "无上下文"],
  no_query: ["No question", "无问题"], no_answer: ["No answer", "无回答"], no_reference: ["No reference answer", "无参考回答"], no_citations: ["No citations", "无引用"],
  not_asked: ["Not asked", "未询问"], application_error: ["Application error", "应用出错"], partial: ["Cut short", "中途结束"],
  capture_incomplete: ["Capture incomplete", "采集不完整"], not_sampled: ["Not sampled", "未抽中"], over_budget: ["Over budget", "超出预算"],
  judge_busy: ["Judge busy", "评审繁忙"], judge_down: ["Judge down", "评审不可用"], evidence_too_long: ["Evidence too long", "证据过长"],
  too_long: ["Texts too long", "文本过长"],
  queue_full: ["Queue full", "队列已满"], judge_timeout: ["Judge timed out", "评审超时"], judge_error: ["Judge failed", "评审失败"],
  unreadable: ["Unreadable reply", "回复无法解析"], evaluator_error: ["Evaluator failed", "评估器出错"], shutdown: ["Shutdown", "已关闭"],
};
const REASONS = {
  content: ["content", "内容"], number: ["number", "数字"], unit: ["unit", "单位"], date: ["date", "日期"], negation: ["negation", "否定"], name: ["name", "名称"], role: ["role", "角色"], field: ["field", "字段"],
};
const SEVERITIES = { minor: ["minor", "轻微"], major: ["major", "严重"] };
const VERDICTS = {
  supported: ["supported", "有依据"], absent: ["in no chunk", "检索内容中没有"], contradicted: ["contradicts a chunk", "与检索内容矛盾"], no_claim: ["no claim", "无论断"],
};
const STATUSES = { ok: ["OK", "正常"], error: ["Error", "出错"], partial: ["Partial", "不完整"], cancelled: ["Cancelled", "已取消"] };
const BASES = { judged: ["Scored by the LLM judge", "由大模型评审评分"], builtin: ["Built-in judge only", "仅内置评审"], unscored: ["Not scored", "未评分"] };
const KINDS = { quality: ["answers", "回答"], input: ["input", "输入"], judge: ["the judge itself", "评审本身"], slice: ["slice", "分片"] };
const UNITS = { usd: ["", ""], tokens: ["tokens", "Token"], calls: ["calls", "次调用"] };
const PERS = { day: ["day", "天"], hour: ["hour", "小时"] };

const TEXTS = {
  sections: ["Sections", "章节"],
  skip: ["Skip to the answers", "跳到回答列表"],
  language: ["Language", "语言"],
  range: ["Time shown", "时间范围"],
  now: ["Now", "当前"],
  hours: ["The last hours", "最近几小时"],
  signal: ["Signal", "信号"],
  all: ["Every evaluation", "全部评估"],
  groups: ["Hallucination rate by group, last hour", "按分组的幻觉率（最近一小时）"],
  alarms: ["Alarms", "告警"],
  events: ["Raised and cleared recently", "最近的触发与解除"],
  goldens: ["Golden questions", "参考问题"],
  goldenTold: ["{questions} {questions|question|questions} with known answers.", "{questions} 个已知正确回答的问题。"],
  goldenLevel: ["Answer correctness of the last 24 hours: {mean} ({lower} to {upper}).", "最近 24 小时的回答正确性：{mean}（{lower} 至 {upper}）。"],
  goldenNoLevel: ["Nothing was asked in the last 24 hours.", "最近 24 小时没有提问。"],
  goldenFaults: ["The judge rejects {faults} reference {faults|answer|answers}.", "评审不接受 {faults} 条参考回答。"],
  goldenCause_application: ["Answers got worse, and the judge still accepts the reference answers: it is the application.", "回答变差，而评审仍接受参考回答：问题在应用。"],
  goldenCause_judge: ["The judge rejects reference answers that it accepted: it is the judge.", "评审不再接受以前接受的参考回答：问题在评审。"],
  goldenQuestion: ["Question", "问题"],
  goldenFault: ["at fault itself", "自身有误"],
  goldenOutcome: ["Outcome", "结果"],
  goldenNewest: ["Newest score", "最新得分"],
  goldenExpected: ["Of its own history", "历史得分"],
  golden_unasked: ["not asked since the start", "启动后尚未提问"],
  golden_answered: ["answered", "已回答"],
  golden_refused: ["connection refused", "连接被拒绝"],
  golden_timeout: ["no answer in time", "超时未回答"],
  golden_http_status: ["HTTP error", "HTTP 错误"],
  golden_no_answer: ["no text in the reply", "回复中没有文本"],
  golden_exception: ["exception", "异常"],
  documents: ["Documents", "文档"],
  docTold: ["Of the {kept} {kept|document|documents} of {answers} {answers|answer|answers}, those that contradict most of them.", "{answers} 条回答用到的 {kept} 篇文档中，与回答矛盾最多的几篇。"],
  deployment: ["deployment", "发布"], judge_change: ["judge change", "评审变更"], event: ["event", "事件"],
  rise: ["{signal} has been worse from here on, by its alarm", "据告警，{signal}自此变差"],
  focusSlice: ["Slice", "分片"],
  focusRate: ["Hallucination rate, last 24 hours", "幻觉率（最近 24 小时）"],
  focusAlarm: ["Its own alarm", "独立告警"],
  focusIncident: ["It stands in the incident of", "见于该时刻的事件："],
  focusAnswers: ["Below are its answers among the recent ones. The address of this page leads here again.", "下面是近期回答中属于它的那些。本页地址可直接回到这里。"],
  focusAll: ["Show all answers", "显示全部回答"],
  focusUnknownSlice: ["Too few answers of it are known for a rate.", "已知的此类回答太少，无法给出比率。"],
  focusUnknownDocument: ["It is not among the documents that contradict most answers.", "它不在与回答矛盾最多的文档之列。"],
  docName: ["Document", "文档"],
  docJudged: ["Scored", "已评分"],
  docRests: ["Rest on it", "以其为依据"],
  docContradicted: ["Contradict it", "与其矛盾"],
  docRetrieved: ["Retrieved", "检索次数"],
  docShown: ["Shown to the model", "提供给模型"],
  docLast: ["Last", "最近一次"],
  answers: ["Recent answers", "最近的回答"],
  live: ["Live, {time}", "实时，{time}"],
  lost: ["No connection since {time}", "自 {time} 起无连接"],
  locked: ["No access: open /?token=… once", "无权访问：请先打开一次 /?token=…"],
  waiting: ["Waiting for the first answers", "等待第一批回答"],
  about: ["ragmonitor {version} · monitoring for {time}", "ragmonitor {version} · 已监测 {time}"],
  aboutVersion: ["ragmonitor {version} · service version {service} · monitoring for {time}", "ragmonitor {version} · 服务版本 {service} · 已监测 {time}"],
  legend: ["Means with 95% intervals over a sliding window. {judge} scores a sample of the answers; each is weighted by 1 / its probability of being drawn, so that sampling does not bias the means.", "滑动窗口内的均值及 95% 置信区间。{judge} 对抽样的回答评分，并按抽中概率加权，抽样不会造成偏差。"],
  legendBuiltin: ["Means with 95% intervals over a sliding window. No LLM judge is configured: every number comes from the built-in judge ({builtin}), which is less exact.", "滑动窗口内的均值及 95% 置信区间。未配置大模型评审：所有数字来自内置评审（{builtin}），不如大模型准确。"],
  twoScores: ["{signal} {value} (built-in {builtin})", "{signal} {value}（内置评审 {builtin}）"],
  unfounded: ["answered although nothing was retrieved", "未检索到内容却作了回答"],
  unfoundedHour: ["{n} {n|answer does|answers do} not say so, last hour", "最近一小时 {n} 条未说明"],
  version: ["version {version}", "版本 {version}"],
  stillRed: ["The alarm ended at {time}: the hour still holds answers from before.", "告警已于 {time} 解除：最近一小时仍包含此前的回答。"],
  redNoAlarm: ["Beyond its limit; the evidence does not suffice for an alarm yet.", "已超限；证据尚不足以触发告警。"],
  stateEnded: ["Ended at {time} (raised at {raised}); limit: {bound}.", "{time} 解除（{raised} 触发）；{bound}。"],
  stateEndedRed: ["The last hour is beyond it still, as it holds answers from before the end; it is over by {until}.", "最近一小时仍超限，因其包含解除前的回答；最迟 {until} 恢复。"],
  armed: ["{armed} {armed|alarm|alarms} armed, {n} learning.", "{armed} 个告警已就绪，{n} 个仍在学习。"],
  predicted: ["predicted {p}%", "预测 {p}%"],
  predictedTitle: ["Chance that the LLM judge finds it hallucinated, as its earlier verdicts teach", "大模型评审判定其为幻觉的概率，由以往评审结论学得"],
  judgedBy: ["scored by {judge}", "由 {judge} 评分"],
  builtinOnly: ["built-in judge only", "仅内置评审"],
  noJudge: ["needs no judge", "无需评审"],
  interval: ["{lower} to {upper}", "{lower} 至 {upper}"],
  nJudged: ["{n} scored", "已评分 {n} 条"],
  nAll: ["{n} answers", "共 {n} 条"],
  day: ["24 h: {value} ({lower} to {upper}) · {n}", "24 小时：{value}（{lower} 至 {upper}）· {n}"],
  noDay: ["24 h: too few answers", "24 小时：数据不足"],
  few: ["too few answers", "数据不足"],
  limit: ["limit: {bound}", "{bound}"],
  atMost: ["at most {value}", "容忍上限 {value}"],
  atLeast: ["at least {value}", "容忍下限 {value}"],
  atMostBelow: ["at most {value} below their own history", "最多比自身历史低 {value}"],
  factSeen: ["answers received", "收到的回答"],
  factSeenMore: ["{rate} per second now", "当前每秒 {rate} 条"],
  factSeenPlain: ["each scored by the built-in judge", "每条均由内置评审评分"],
  factJudged: ["answers scored by the judge", "评审已评分的回答"],
  factJudgedNone: ["no LLM judge is configured", "未配置大模型评审"],
  factShare: ["sampling rate now", "当前抽样比例"],
  factPeople: ["people agree with the judge", "用户与评审一致"],
  factPeopleMore: ["95% interval {lower} to {upper}, of {n} answers people spoke of; no random sample", "95% 区间 {lower} 至 {upper}，共 {n} 个用户评价过的回答；并非随机样本"],
  factMissing: ["{share} of the drawn answers have no verdict", "抽中的回答中 {share} 无结论"],
  factCommon: ["base rate, before uncertainty is weighed", "基础抽样比例"],
  factBudget: ["of {limit} per {per} spent on answers", "每{per}预算 {limit} 中已用于评审"],
  factAtOnce: ["{level} may be spent at once now", "当前可一次性使用 {level}"],
  factGoodAnswer: ["per good answer", "每条合格回答"],
  factNoBudget: ["no budget is set", "未设预算"],
  budget: ["Budget", "预算"],
  estimateTitle: ["{signal}, last hour", "{signal}，最近一小时"],
  evidenceTitle: ["Alarm evidence, % of the threshold, log scale", "告警证据，占告警阈值的百分比（对数刻度）"],
  readEstimate: ["{time}: {value} ({lower} to {upper})", "{time}：{value}（{lower} 至 {upper}）"],
  readEvidence: ["{time}: {value} of the threshold", "{time}：阈值的 {value}"],
  thresholdLine: ["threshold", "告警阈值"],
  nothingYet: ["nothing yet", "暂无数据"],
  incidents: ["Incidents", "事件"],
  incidentOpen: ["open", "未结束"],
  incidentClosed: ["over", "已结束"],
  search: ["Search: text, attribute, document, verdict, id", "搜索：文本、属性、文档、结论、编号"],
  calmSlices: ["{n} {n|slice|slices} of the traffic with an alarm of {n|its|their} own: no evidence.", "另有 {n} 个分片设有独立告警：无证据。"],
  noAlarm: ["no alarm monitors this signal", "该信号没有告警"],
  colSignal: ["Evaluation", "评估"],
  colTrend: ["Trend, {range}", "趋势（{range}）"],
  colJudged: ["LLM judge, {window}", "大模型评审，{window}"],
  colBuiltin: ["Built-in judge only, {window}", "仅内置评审，{window}"],
  colWhole: ["Every answer, {window}", "全部回答，{window}"],
  colGroup: ["Group", "分组"],
  colDimension: ["By", "维度"],
  threshold: ["An alarm is raised when its evidence reaches 100% of the threshold. The threshold is {days} {days|day|days}: while every objective is met, all alarms together reach it at most once in {days} {days|day|days} on average.", "证据达到阈值的 100% 即告警。阈值为 {days} 天：只要各目标均达成，所有告警合计平均至多每 {days} 天误报一次。"],
  stateActive: ["Raised at {time}, {ago} ago; limit: {bound}.", "{time} 触发（{ago}前）；{bound}。"],
  stateActiveSpan: ["Raised at {time}, {ago} ago: {span}; limit: {bound}.", "{time} 触发（{ago}前）：{span}；{bound}。"],
  stateLearning: ["Learning what is usual: {share} of the verdicts it needs. It cannot alarm before.", "正在学习常态：已有所需结论的 {share}，学完之前不会告警。"],
  stateRising: ["Evidence rising since {time}; limit: {bound}.", "证据自 {time} 起上升；{bound}。"],
  stateFine: ["Within its limit: {bound}.", "未超限：{bound}。"],
  evidence: ["{value} of the threshold", "阈值的 {value}"],
  evidenceHelp: ["{value} of {days} {days|day|days} of evidence", "证据 {value} / {days} 天"],
  verdictActive: ["Alarm: {signals}. Raised at {time}.", "告警：{signals}。{time} 触发。"],
  causeJudge: ["The judge has become stricter: {flipped} of {reread} old answers without a hallucination flipped when they were judged again (wrong for at most 1 alarm in 20).", "评审模型变严了：重新评审的 {reread} 条原先合格的旧回答中有 {flipped} 条被改判（误判不超过二十分之一）。"],
  causeApplication: ["It is the application, not the judge: {flipped} of {reread} old answers without a hallucination flipped when they were judged again (wrong for at most 1 alarm in 20).", "原因在应用，不在评审模型：重新评审的 {reread} 条原先合格的旧回答中有 {flipped} 条被改判（误判不超过二十分之一）。"],
  causeUnknown: ["Judge or application is not known yet: {flipped} of {reread} old answers flipped so far, {waiting} more can be judged again.", "尚不能判断原因在评审模型还是应用：已重新评审 {reread} 条旧回答，{flipped} 条被改判，还可重新评审 {waiting} 条。"],
  causeTooFew: ["Judge or application is not known yet: too few verdicts since the rise.", "尚不能判断原因在评审模型还是应用：上升以来的结论太少。"],
  verdictActiveWith: ["Alarm: {signal} {value} ({lower} to {upper}), limit: {bound}. Raised at {time}.", "告警：{signal} {value}（{lower} 至 {upper}），{bound}。{time} 触发。"],
  verdictActiveSpan: ["Alarm: {signal}, {span}; limit: {bound}. Raised at {time}.", "告警：{signal}，{span}；{bound}。{time} 触发。"],
  spanRate: ["{bad} of {scored} scored answers since {since}", "自 {since} 起 {scored} 个已评分回答中有 {bad} 个"],
  spanMean: ["a mean of {mean} over {scored} scored answers since {since}", "自 {since} 起 {scored} 个已评分回答的平均值为 {mean}"],
  spanBefore: ["; {value} before", "；此前 {value}"],
  verdictAlso: ["Also: {signals}.", "另有：{signals}。"],
  verdictRising: ["No alarm. Evidence is rising: {signals}.", "无告警。证据正在上升：{signals}。"],
  verdictLearning: ["No alarm. {armed} {armed|alarm|alarms} armed, {n} learning what is usual, which cannot be raised yet.", "无告警。{armed} 个告警已就绪，{n} 个仍在学习常态，尚不能触发。"],
  verdictFine: ["All {all} monitored {all|signal is|signals are} within {all|its limit|their limits}.", "{all} 个受监测信号均未超过容忍上限。"],
  verdictNone: ["No signal is monitored.", "没有受监测的信号。"],
  eventRaised: ["raised", "触发"],
  eventCleared: ["cleared", "解除"],
  eventSpan: ["{span}; limit: {bound}", "{span}；{bound}"],
  eventEstimate: ["{value} ({lower} to {upper}), limit: {bound}", "{value}（{lower} 至 {upper}），{bound}"],
  eventBound: ["limit: {bound}", "{bound}"],
  withheld: ["Texts are withheld (content = {content}): ids, scores and verdicts only.", "文本不予显示（content = {content}）：仅有编号、分数与结论。"],
  filterBasis: ["Scored by", "评分者"],
  filterEvaluator: ["Evaluator", "评估器"],
  filterOutcome: ["Outcome or cause", "结果或原因"],
  filterDiagnosis: ["Diagnosis", "诊断"],
  filterAttribute: ["Route, attribute", "路由与属性"],
  filterFramework: ["Framework", "框架"],
  filterStatus: ["Status", "状态"],
  filterPeople: ["People", "用户评价"],
  filterOrder: ["Order", "排序"],
  any: ["Any", "不限"],
  orderWorst: ["Bad ones first, worst first", "差的优先、最差在前"],
  orderLatest: ["Latest first", "最新优先"],
  reset: ["Reset", "重置"],
  fresh: ["Show {n} new", "显示 {n} 条新回答"],
  freshNone: ["Up to date", "已是最新"],
  shown: ["{n} of {all} kept", "保留 {all} 条，符合 {n} 条"],
  more: ["Show more ({n})", "显示更多（{n}）"],
  emptyNone: ["No answer so far.", "目前没有回答。"],
  emptyFilter: ["No answer fits these filters.", "没有符合筛选条件的回答。"],
  answer: ["Answer", "回答"],
  noText: ["(empty)", "（空）"],
  chunks: ["Retrieved", "检索内容"],
  noChunks: ["Nothing was retrieved.", "没有检索到内容。"],
  chunk: ["Chunk {n} of {all}", "第 {n} / {all} 块"],
  relevance: ["relevance {value}", "相关度 {value}"],
  score: ["score {value}", "得分 {value}"],
  closest: ["closest passage marked", "已标出最接近的段落"],
  moreChunks: ["{n} more {n|chunk|chunks}", "其余 {n} 块"],
  cut: ["… {n} {n|character|characters} left out …", "……省略 {n} 个字符……"],
  sentence: ["Sentence {n}", "第 {n} 句"],
  because: ["({reasons})", "（{reasons}）"],
  scores: ["All scores", "全部分数"],
  copy: ["Copy trace id", "复制链路编号"],
  copied: ["Copied", "已复制"],
  openTrace: ["Open trace", "打开链路"],
  trace: ["trace", "链路"],
  noTrace: ["no trace was sent", "未发送链路"],
  times: ["given {n} {n|time|times}", "出现 {n} 次"],
  tokens: ["{read} tokens in, {written} out", "输入 {read} Token，输出 {written} Token"],
  session: ["session", "会话"],
  took: ["{s} s", "{s} 秒"],
  judgeDidNot: ["judge: {cause}", "评审：{cause}"],
  foot: ["Kept in memory by this process and gone when it ends. For more than a day, and for all processes: /metrics and your traces.", "由本进程保存在内存中，进程结束即消失。更长时间与全部进程的数据请见 /metrics 与链路系统。"],
  zone: ["Times are those of {zone}.", "时间为 {zone}。"],
  s: ["{n} s", "{n} 秒"], min: ["{n} min", "{n} 分钟"], h: ["{n} h", "{n} 小时"], d: ["{n} d", "{n} 天"],
};

const PEOPLE = { good: ["found good by a person", "用户好评"], bad: ["found bad by a person", "用户差评"], neither: ["spoken of by a person", "用户留言"] };
const TABLES = { people: PEOPLE, signal: SIGNALS, diagnosis: DIAGNOSES, cause: CAUSES, reason: REASONS, verdict: VERDICTS, severity: SEVERITIES, status: STATUSES, basis: BASES, kind: KINDS, unit: UNITS, per: PERS };

let column = 0;

export function speak(language) { column = language === "zh" ? 1 : 0; }
export function language() { return column ? "zh" : "en"; }

/** A text, its {names} filled in; {name|one|many} is by the number of that name. */
export function t(key, values = {}) {
  return TEXTS[key][column].replace(/\{(\w+)(?:\|([^|}]*)\|([^}]*))?\}/g, (_, name, one, many) => {
    const value = String(values[name] ?? "");
    return many === undefined ? value : value === "1" ? one : many;
  });
}

/** A signal and the slice that its name may hold: "hallucination{route=billing}". */
export function parted(signal) {
  const found = /^([^{]*)\{(.*)\}$/.exec(signal);
  return found ? [found[1], found[2]] : [signal, ""];
}

/** What a name of ours is called; a stranger's is shown as it is. */
export function called(table, name) {
  if (table === "signal" && name.startsWith("golden_")) return `${t("goldens")} · ${called(table, name.slice(7))}`;
  const [whole, slice] = table === "signal" ? parted(name) : [name, ""];
  if (slice) return `${called(table, whole)} · ${slice}`;
  const known = Object.hasOwn(TABLES[table], name) ? TABLES[table][name] : null;
  return known ? known[column] : String(name).replaceAll("_", " ");
}

export function list(items) {
  return new Intl.ListFormat(language(), { type: "conjunction" }).format(items);
}
