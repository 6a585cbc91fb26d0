"""What the built-in judge says of small answers, the same in English and in Chinese."""

import pytest

from ragmonitor.judges.builtin import assess, evidence
from ragmonitor.records import Assessment, SentenceVerdict, Verdict
from tests.support.judge_caches import clear_kept

SUPPORTED, ABSENT = Verdict.SUPPORTED, Verdict.ABSENT
CONTRADICTED, NO_CLAIM = Verdict.CONTRADICTED, Verdict.NO_CLAIM

ENGLISH = (
    (
        "The Eiffel Tower was completed on 31 March 1889. It is 330 metres tall and was designed by"
        " Gustave Eiffel's company. It weighs 10,100 tons. The tower is not open on Mondays."
    ),
    "Berlin is the capital of Germany. It has 3.7 million inhabitants.",
)
CHINESE = (
    "埃菲尔铁塔于1889年3月31日建成。它高330米，由古斯塔夫·埃菲尔的公司设计。铁塔重10100吨。铁塔周一不开放。",
    "柏林是德国的首都，人口370万。",
)


def read(answer: str, query: str = "") -> Assessment:
    chunks = CHINESE if any("\u4e00" <= letter <= "\u9fff" for letter in answer) else ENGLISH
    return assess(query, chunks, answer)


def only(answer: str) -> SentenceVerdict:
    (sentence,) = read(answer).sentences or ()
    return sentence


def test_a_sentence_out_of_two_chunks_names_both():
    """As few chunks as explain the sentence, but no fewer."""
    sentence = only("Berlin has 3.7 million inhabitants and the tower weighs 10,100 tons.")
    assert set(sentence.chunks) == {0, 1}


def test_missing_words_stand_as_in_the_sentence():
    """The offending words are quoted, not stemmed."""
    assert only("The tower was painted by volunteers.").words == ("painted", "volunteers")


def test_missing_chinese_words_are_whole():
    """Neighbouring pairs of characters are one piece of text."""
    assert only("志愿者把猫涂成紫色。").words == ("志愿者", "猫涂成紫色")


@pytest.mark.parametrize(
    ("chunk", "answer"),
    [
        ("It cost 2.5 billion dollars.", "It cost 2,500 million dollars."),
        ("There are twenty-five rooms.", "There are 25 rooms."),
        ("About 6,572,728 people live in the city.", "About 6.6 million people live in the city."),
        ("Sales rose by 50%.", "Sales rose by 50 percent."),
        ("公司收入1.26万元。", "公司收入12600元。"),
        ("收入增长50%。", "收入增长百分之五十。"),
        ("会议在星期五举行。", "会议在周五举行。"),
        ("The organisation was founded by a writer.", "A writer founded the organization."),
    ],
)
def test_another_spelling_is_the_same(chunk: str, answer: str):
    """Numbers, dates, accents and inflections are compared by what they mean."""
    (sentence,) = assess("", [chunk], answer).sentences or ()
    assert sentence.verdict is SUPPORTED


@pytest.mark.parametrize(
    "answer",
    [
        "I'm sorry, but the provided documents don't contain any information about its owner.",
        "The passages discuss the tower. However, they do not mention its owner.",
        "资料中没有提到所有者。如果您能提供更多上下文，我会尽力帮助您。",
        "无法回答。若您愿意补充更多背景资料，我可以再为您分析。",
        "要回答这个问题，需要更多的信息。",
        "这个问题的答案并不在提供的上下文中。",
        "I don't know. With more information, I could answer better.",
        "It is unclear from the context who owns the tower.",
    ],
)
def test_a_refusal_is_evasive(answer: str):
    """An answer that declines, with or without excuses and offers, claims nothing."""
    found = read(answer, "Who owns the tower?")
    assert found.evasive
    assert found.hallucinated is None
    assert found.risk is not None
    assert found.risk < 0.1


@pytest.mark.parametrize(
    "answer",
    [
        "The tower is 330 metres tall, but the context does not mention its owner.",
        "I don't know the day, but it was completed in March 1889 by a company.",
        "抱歉让您久等了。铁塔重10100吨。",
        "如果您提供学生证，门票半价。",
        "More stairs are needed to reach the top.",
        "The tower is beyond the river.",
    ],
)
def test_an_answer_with_an_excuse_is_no_refusal(answer: str):
    """Apologies, and absences beside an answer, are no refusals."""
    assert not read(answer, "How tall is the tower, and who owns it?").evasive


def test_the_worst_sentence_weighs_most():
    """One invention among true sentences is not averaged away."""
    true = "Berlin is the capital of Germany. The tower weighs 10,100 tons. It is 330 metres tall. "
    assert (read(true + "Volunteers paint cats purple.").risk or 0) > 0.5


def test_a_repeated_sentence_is_judged_where_it_stands():
    """The same sentence twice gets the same verdict twice, each with its own offsets."""
    first, second = read("Volunteers paint cats. Volunteers paint cats.").sentences or ()
    assert (first.start, second.start) == (0, 23)
    assert (first.verdict, first.words) == (second.verdict, second.words) == (ABSENT, first.words)


def test_another_language_cannot_be_read():
    """A Chinese answer over English chunks shares no words with them, and that says nothing."""
    found = assess("", ENGLISH, "柏林是德国的首都。")
    assert found.sentences is None
    assert found.risk is None


def test_a_refusal_is_read_over_any_language():
    """A Chinese refusal over English chunks is a refusal."""
    found = assess("Who?", ENGLISH, "我不知道。")
    assert found.evasive
    assert found.sentences is not None


def test_no_question_has_no_relevance():
    """Nothing is said of relevance to a question that was not asked."""
    found = assess("", ENGLISH, "Berlin is the capital of Germany.")
    assert found.answer_relevancy is None
    assert found.chunk_relevance is None


@pytest.mark.parametrize(
    "text",
    [
        "\ud800",
        "\x00\x00",
        "...",
        "שלום עולם",
        "x" * 100_000,
        "万" * 10_000,
        "1,000," * 10_000,
        "two hundred " * 5_000,
    ],
)
def test_odd_texts_are_read(text: str):
    """Nothing raises, as question, chunk or answer."""
    found = assess(text, [text, ""], text)
    assert found.risk == 0.0 or found.risk == pytest.approx(0.1)


@pytest.mark.parametrize(
    ("chunk", "answer"),
    [
        (
            "There is no evidence that the vaccine causes autism in children.",
            "There is no evidence that the vaccine causes autism.",
        ),
        (
            "The warranty document does not cover water damage.",
            "The document does not cover water damage.",
        ),
        ("没有证据和数据表明该疫苗会导致自闭症。", "没有数据表明该疫苗会导致自闭症。"),
    ],
)
def test_an_absence_that_the_chunks_state_is_a_claim(chunk: str, answer: str):
    """What reads like a refusal is none where the chunks say the same."""
    found = assess("Is it known?", [chunk], answer)
    assert not found.evasive
    assert [s.verdict for s in found.sentences or ()] == [SUPPORTED]


@pytest.mark.parametrize(
    "answer", ["May I ask why Berlin is the capital?", "You may visit Berlin."]
)
def test_may_is_no_month_by_itself(answer: str):
    """`May` is a month beside a number or a preposition only."""
    assert "date" not in only(answer).reasons


@pytest.mark.parametrize("answer", ["Leeds is a city in the UK.", "Leeds is a U.K. city."])
def test_an_acronym_stands_for_its_words(answer: str):
    """`UK` is no unknown name where the chunks say United Kingdom."""
    (sentence,) = assess("", ["Leeds is a city in the United Kingdom."], answer).sentences or ()
    assert "name" not in sentence.reasons


# Short sentences, tables, and what frameworks say


@pytest.mark.parametrize(
    ("chunk", "answer"),
    [
        ("Cash is not accepted.", "Yes, cash is accepted."),
        ("We do not accept cash.", "Yes, cash is accepted."),
        ("Pets are allowed.", "No pets are allowed."),
        ("不接受现金", "接受现金。"),
        ("We don't take cash.", "Yes, you can pay cash."),
        ("Bikes are forbidden on the trail.", "Bikes are allowed on the trail."),
        ("The pool is open daily except Monday.", "The pool is open on Monday."),
        ("Payment without a card is impossible.", "Payment without a card is possible."),
        ("Nobody was injured in the crash.", "Somebody was injured in the crash."),
        ("It is sold without a charger.", "It is sold with a charger."),
        ("不收现金，只收信用卡。", "收现金。"),
        ("无需预约。", "需要预约。"),
        ("博物馆周一闭馆。", "博物馆周一开放。"),
        ("除周一外每天开放。", "周一开放。"),
    ],
)
def test_the_opposite_of_a_short_sentence_is_contradicted(chunk: str, answer: str):
    """Two words in common are enough where nothing else is said."""
    (sentence,) = assess("", [chunk], answer).sentences or ()
    assert (sentence.verdict, sentence.reasons) == (CONTRADICTED, ("negation",))


@pytest.mark.parametrize(
    ("chunks", "answer"),
    [
        (["Cash is not accepted."], "No, cash is not accepted."),
        (["Cards are accepted. Cash is not accepted."], "Cards are accepted."),
        (["Pets: No\nCash is accepted."], "Cash is accepted."),
        (["不仅接受现金，也接受刷卡。"], "接受现金。"),
        (["The tickets are non-refundable."], "The tickets are not refundable."),
        (["It is not impossible to see deer in the park."], "It is possible to see deer."),
        (["The drug must not be used unless prescribed."], "The drug may be used if prescribed."),
        (["No more than 5 guests may stay."], "Up to 5 guests may stay."),
        (["It covers no water damage but covers fire damage."], "It covers fire damage."),
        (["未经许可不得进入。"], "经许可可以进入。"),
        (["不收现金，只收信用卡。"], "可以用信用卡。"),
        (["Check-in is not possible before 3 pm."], "Check-in is possible from 3 pm."),
        (["12岁以下儿童不收费。"], "12岁以上儿童收费。"),
    ],
)
def test_what_is_said_somewhere_is_no_contradiction(chunks: list[str], answer: str):
    """Neither is what a negation in another clause or another sentence stands before."""
    (sentence,) = assess("", chunks, answer).sentences or ()
    assert sentence.verdict is not CONTRADICTED
    assert "negation" not in sentence.reasons


@pytest.mark.parametrize("form", ["{0}", "{0} [1]", "- {0}", "The table says {0}.", "**{0}**"])
@pytest.mark.parametrize(
    "table",
    [
        "| Basic | not refundable | allowed |\n| Plus | refundable | not allowed |",
        "| Shuttle | allowed | free | never |\n| Shuttle | not allowed | no | never |",
        "| Standard room | breakfast not included | pets allowed |",
        "| 标准间 | 不含早餐 | 允许携带宠物 |\n| 标准间 | 含早餐 | 不允许携带宠物 |",
        "| 套房 | 不可退款 | 不需要 | 无 |\n| 套房 | 可退款 | 需要 | 无 |",
    ],
)
def test_a_quoted_row_of_a_table_is_not_contradicted_by_another(table: str, form: str):
    """Rows are alike in their words; a negation in a cell says nothing of the next cell."""
    for row in table.split("\n"):
        cells = row.strip("| ").split(" | ")
        for quote in (row, " | ".join(cells), ", ".join(cells), " | ".join(cells[::2])):
            found = assess("", [table], form.format(quote)).sentences or ()
            assert all(sentence.verdict is not CONTRADICTED for sentence in found), quote


def test_a_claim_about_an_empty_response_is_a_claim():
    """Only the framework's whole text is one of its own."""
    found = assess("", ["It is 330 m tall."], "The server sent an empty response to the client.")
    assert not found.evasive


# Framing: what stands around claims, and claims nothing


@pytest.mark.parametrize(
    "form",
    [
        "根据提供的资料，{0}。",
        "根据文档1和文档3，{0}。",
        "资料1指出，{0}。",
        "{0}（见段落5）。",
        "{0}【来源3】。",
        "答案：{0}。",
    ],
)
def test_a_source_marker_is_no_claim_of_a_chinese_sentence(form: str):
    """Neither its characters nor its numbers are looked for in the chunks."""
    sentence = only(form.format("铁塔周一不开放"))
    assert (sentence.verdict, sentence.words) == (SUPPORTED, ())


@pytest.mark.parametrize(
    "answer",
    [
        "According to Passage 1, the tower is 340 metres tall.",
        "Document 3 states that it is 340 metres tall (Passage 2).",
        "Enjoy the tower of 340 metres and free drinks.",
        "资料1指出，它高340米【1】。",
    ],
)
def test_a_claim_in_a_frame_is_checked(answer: str):
    """What is framed is compared as if it stood alone."""
    assert "number" in only(answer).reasons


# Roles: who does what to whom


@pytest.mark.parametrize(
    ("chunk", "answer"),
    [
        ("Google bought Motorola in 2012.", "Google was bought by Motorola in 2012."),
        ("Brazil lost to Germany.", "Germany lost to Brazil."),
        ("Alpha Corp bought Beta Corp in 2020.", "Beta Corp bought Alpha Corp in 2020."),
        ("谷歌收购了摩托罗拉。", "谷歌被摩托罗拉收购。"),
        ("2018年，美团全资收购摩拜单车。", "2018年，摩拜单车收购了美团。"),
        ("巴西队以2比0击败德国队。", "德国队以2比0击败巴西队。"),
    ],
)
def test_exchanged_roles_are_a_contradiction(chunk: str, answer: str):
    """All the words are there, and who did it is another."""
    (sentence,) = assess("", [chunk], answer).sentences or ()
    assert (sentence.verdict, sentence.reasons) == (CONTRADICTED, ("role",))


@pytest.mark.parametrize(
    ("chunks", "answer"),
    [
        (["Google bought Motorola in 2012."], "Motorola was bought by Google in 2012."),
        (["Anna married Ben."], "Ben married Anna."),
        (["Brazil lost to Germany."], "Germany defeated Brazil."),
        (["Google did not buy Motorola."], "Motorola did not buy Google."),
        (["Google and Motorola bought Palm."], "Motorola bought Palm."),
        (["巴西队击败德国队。德国队击败巴西队。"], "德国队击败巴西队。"),
        (["谷歌没有收购摩托罗拉。"], "摩托罗拉没有收购谷歌。"),
    ],
)
def test_the_same_roles_in_another_form_are_none(chunks: list[str], answer: str):
    """Active and passive, acts of both and acts that go both ways are no exchange."""
    (sentence,) = assess("", chunks, answer).sentences or ()
    assert "role" not in sentence.reasons


# Names in Chinese


@pytest.mark.parametrize(
    ("chunk", "answer", "name"),
    [
        ("公司由李强先生于1990年创立。", "公司由张伟先生于1990年创立。", "张伟"),
        ("李强于1990年创立公司。", "张伟于1990年创立公司。", "张伟"),
        ("市长陈明出席会议。", "市长欧阳洋出席会议。", "欧阳洋"),
        ("总部位于杭州市。", "总部位于深圳市。", "深圳市"),
        ("腾讯公司发布了新产品。", "阿里公司发布了新产品。", "阿里公司"),
        ("该书名为《红楼梦》，作者是曹雪芹。", "该书名为《西游记》，作者是曹雪芹。", "西游记"),
        (
            "导演克里斯托弗·诺兰执导了影片。",
            "导演史蒂文·斯皮尔伯格执导了影片。",
            "史蒂文·斯皮尔伯格",
        ),
    ],
)
def test_another_chinese_name_is_one_finding_in_full(chunk: str, answer: str, name: str):
    """Titles, endings, quotes and surnames tell where a name begins and ends."""
    (sentence,) = assess("", [chunk], answer).counted_findings
    assert (sentence.verdict, sentence.reasons) == (CONTRADICTED, ("name",))
    assert sentence.words == (name,)


@pytest.mark.parametrize(
    ("chunk", "answer"),
    [
        ("李强先生于1990年创立公司。", "李强在1990年创立了这家科技公司。"),
        ("百度公司成立于2000年。", "这家互联网公司成立于2000年。"),
        ("总部位于杭州市。", "总部在杭州。"),
        ("他在清华读书。", "他就读于清华大学。"),
        ("《中华人民共和国劳动合同法》规定试用期。", "《劳动合同法》规定试用期。"),
        ("浙江省的城市人口增长。", "该省的城市人口增长，上市公司增多。"),
        ("张伟教授说，马上开放市场。", "张伟说马上开放市场。"),
    ],
)
def test_what_names_nothing_new_is_no_wrong_name(chunk: str, answer: str):
    """Shorter forms, common nouns with the same endings and names that stand there are none."""
    found = assess("", [chunk], answer).sentences or ()
    assert not any("name" in sentence.reasons for sentence in found)


@pytest.mark.parametrize(
    ("chunk", "answer"),
    [
        ("The cafe\u0301 is in Zu\u0308rich.", "The café is in Zürich."),
        ("The U.K. left the E.U. in 2020.", "The UK left the EU in 2020."),
        ("Take 1½ cups of flour.", "Take 1.5 cups of flour."),
        ("The meeting is on 2021-03-05.", "The meeting is on March 5, 2021."),
        ("退款需要两周。", "退款需要2周。"),
        ("人口约一万五。", "人口约15000。"),
        ("The trial lasts three months.", "The trial lasts 3 months."),
        ("The US economy grew in 2020.", "The U.S. economy grew in 2020."),
        ("It costs $20 in total.", "It costs US$20 in total."),
        ("The shop opens at 9:00 on Monday.", "The shop opens at 9 am on Monday."),
        ("Check-in is from 15:00 at the desk.", "Check-in is from 3 p.m. at the desk."),
        ("The museum is open 9-11 am daily.", "The museum is open 9 am to 11 am daily."),
        ("营业时间为9:00-18:00。", "营业时间为上午九点到下午六点。"),
        ("本文提出三点建议。", "本文提出3条建议。"),
    ],
)
def test_the_same_in_another_spelling_is_supported(chunk: str, answer: str):
    """Decomposed accents, soft hyphens, dotted acronyms, dates of two forms, numerals."""
    assert [s.verdict for s in assess("", [chunk], answer).sentences or ()] == [SUPPORTED]


@pytest.mark.parametrize(
    ("chunk", "answer", "words"),
    [
        ("The limit is ½ cup of sugar per day.", "The limit is ¼ cup of sugar per day.", "¼"),
        ("占比为三分之一。", "占比为三分之二。", "三分之二"),
        ("试用期为3个月，从5月开始。", "试用期为5个月。", "5"),
        ("The UK economy grew in 2020.", "The US economy grew in 2020.", "US"),
        ("The shop opens at 9 am on Monday.", "The shop opens at 9 pm on Monday.", "9 pm"),
        ("入住时间为15:00。", "入住时间为下午4点。", "4点"),
    ],
)
def test_another_number_date_or_country_is_a_contradiction(chunk: str, answer: str, words: str):
    """They are read as numbers, dates and names, and not as words."""
    (sentence,) = assess("", [chunk], answer).sentences or ()
    assert sentence.verdict is CONTRADICTED
    assert words == "¼" or any(words in each for each in sentence.words)


def test_a_unit_behind_a_number_is_no_name():
    """`USD` is no other name than those of the chunks."""
    (sentence,) = assess("", ["Shipping to Canada costs $4.99."], "Shipping: 4.99 USD").sentences
    assert "name" not in sentence.reasons


@pytest.mark.parametrize(
    "answer",
    [
        "I can only answer questions about our store.",
        "That's outside what I can help with.",
        "Sorry, I didn't understand that. Could you rephrase?",
        "目前没有这方面的信息。",
    ],
)
def test_what_an_assistant_says_of_its_own_limits_is_a_refusal(answer: str):
    """It says nothing of the matter, and is no invention."""
    assert assess("How much is it?", ["Shipping costs $4.99."], answer).evasive is True


@pytest.mark.parametrize(
    ("chunk", "answer"),
    [
        ("该产品不防水，保固两年。", "该产品防水。"),
        ("该产品支持快充，不支持无线充电。", "该产品支持无线充电。"),
        ("酒店提供早餐，不提供午餐。", "酒店提供午餐。"),
        ("Our store ships to the US and Canada.", "We don't ship to the US."),
    ],
)
def test_the_opposite_of_one_clause_is_a_contradiction(chunk: str, answer: str):
    """Also where the same verb stands without a negation in another clause, of another object."""
    (sentence,) = assess("", [chunk], answer).sentences or ()
    assert (sentence.verdict, sentence.reasons) == (CONTRADICTED, ("negation",))


@pytest.mark.parametrize(
    ("chunk", "answer"),
    [
        ("酒店提供早餐，不提供午餐。", "酒店提供早餐。"),
        ("该产品不防尘，防水。", "该产品防水。"),
        ("The pool is open, the gym is not open.", "The pool is open."),
    ],
)
def test_what_one_clause_states_is_supported(chunk: str, answer: str):
    """A negation in another clause does not reach it."""
    assert [s.verdict for s in assess("", [chunk], answer).sentences or ()] == [SUPPORTED]


def test_the_words_of_a_clause_stand_as_they_were_written():
    """A finding on a clause quotes whole words of it, and of nothing before it."""
    chunk = "Items can be returned within 30 days of delivery."
    refund = "and customs duty is refunded in full."
    answer = f"{chunk[:-1]}, {refund}"
    found = assess("", [chunk], answer).sentences or ()
    assert [each.verdict for each in found] == [SUPPORTED, ABSENT]
    assert found[1].text == refund
    assert found[1].words == ("customs", "duty", "refunded", "full")


def test_a_thousand_recurring_chunks_stay_in_bounded_memory(monkeypatch: pytest.MonkeyPatch):
    """The bound is of bytes: Chinese takes more of them than English."""
    texts = [
        f"第{n}条规定了城区世界历史文化民族关系问题生活条件环境质量标准。" * 15
        for n in range(1_000)
    ]
    clear_kept()
    first = evidence.kept_chunks.read(texts[0])
    for text in texts:
        evidence.kept_chunks.read(text)
    assert evidence.kept_chunks.read(texts[0]) is first
    monkeypatch.setattr(evidence, "MAX_KEPT_BYTES", 20 * first.size_bytes())
    for text in texts[1:100]:
        evidence.kept_chunks.read(text)
    evidence.kept_chunks.read("another")
    assert evidence.kept_chunks.read(texts[0]) is not first
    clear_kept()


def test_a_foreign_sign_leaves_the_accents_of_other_words_alike():
    """A chunk with an emoji, or a trade mark, says what the answer says."""
    answer = "The café serves soufflé and crème brûlée daily."
    (sentence,) = assess("", [f"{answer} 😀"], answer).sentences
    assert sentence.verdict is Verdict.SUPPORTED


def test_a_fraction_in_one_character_is_a_number():
    """In Chinese, too; a quarter is not 25."""
    (sentence,) = assess("", ["水占½。"], "水占¾。").sentences
    assert (sentence.verdict, sentence.reasons) == (Verdict.CONTRADICTED, ("number",))
    (sentence,) = assess("", ["It takes ¼ of the water."], "It takes 25 of the water.").sentences
    assert sentence.reasons == ("number",)
