"""Where sentences end, in English, Chinese and both."""

import pytest

from ragmonitor.judges.sentences import language, marker_end, split


def texts(text: str) -> list[str]:
    return [sentence.text for sentence in split(text)]


@pytest.mark.parametrize(
    "sentence",
    [
        "Dr. Smith met Mrs. Jones at 5 p.m. in St. Louis.",
        "The U.S. Senate voted on Apr. 18 on bill No. 5.",
        "J. R. R. Tolkien wrote it.",
        "Version v1.2.3 costs 3.5 dollars.",
        "He waited ... and left.",
        '"Stop!" he said quietly.',
        "请访问www.example.com查看config.yaml文件。",
    ],
)
def test_no_cut_inside(sentence: str):
    """Abbreviations, initials, decimals, versions, ellipses and addresses hold together."""
    assert texts(sentence) == [sentence]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("One. Two! Three? Four.", ["One.", "Two!", "Three?", "Four."]),
        ("He moved to the U.S. He was ten.", ["He moved to the U.S.", "He was ten."]),
        ("The answer is no. I asked.", ["The answer is no.", "I asked."]),
        ("A fact.[1] Another [2]. Third.", ["A fact.[1]", "Another [2].", "Third."]),
        ("really? that is odd. i knew .", ["really?", "that is odd.", "i knew ."]),
        ("你好。再见！真的吗？好；行。", ["你好。", "再见！", "真的吗？", "好；", "行。"]),
        ("他说：“走吧。”大家都走了。", ["他说：“走吧。”", "大家都走了。"]),
        ("用LangChain。Then it works. 很好。", ["用LangChain。", "Then it works.", "很好。"]),
    ],
)
def test_cuts(text: str, expected: list[str]):
    """A stop ends a sentence together with what closes behind it."""
    assert texts(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1. First thing\n2. Second thing", ["1. First thing", "2. Second thing"]),
        ("- one\n- two", ["- one", "- two"]),
        ("Do this. 2. Do that.", ["Do this.", "2. Do that."]),
        ("Passage 1:\nIt rained.", ["Passage 1:\nIt rained."]),
        ("一、苹果\n二、香蕉", ["一、苹果", "二、香蕉"]),
        ("1.苹果很好。\n2.香蕉也好。", ["1.苹果很好。", "2.香蕉也好。"]),
    ],
)
def test_a_bare_marker_is_no_sentence(text: str, expected: list[str]):
    """A list marker or a label belongs to the line that it introduces."""
    assert texts(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # colour, and a quotation of it
        ('It is a "hidden gem." Locals say so.', ['It is a "hidden gem."', "Locals say so."]),
        # a detail, and the date that may be swapped
        ("It opened on Apr. 18, 2019. It closed.", ["It opened on Apr. 18, 2019.", "It closed."]),
        # attribution
        ("Passage 2 says so. Passage 3: no.", ["Passage 2 says so.", "Passage 3: no."]),
        ("Passage 1:\n\nPassage 2 agrees.", ["Passage 1:\n\nPassage 2 agrees."]),
        # order
        ("Step 1: Go.\n**Step 2:** Stop.", ["Step 1: Go.", "**Step 2:** Stop."]),
        ("步骤1：按下。\n步骤2：等待。", ["步骤1：按下。", "步骤2：等待。"]),
        # the sources themselves
        ("No links are given. Passage 1 is short.", ["No links are given.", "Passage 1 is short."]),
        # advice, instructions and courtesy
        ("Sure! Wait 5 min. before you go. Bye!", ["Sure!", "Wait 5 min. before you go.", "Bye!"]),
        ("请先断电！祝您愉快！", ["请先断电！", "祝您愉快！"]),
    ],
)
def test_what_judges_disagree_about_is_one_sentence_each(text: str, expected: list[str]):
    """Labels, steps and dates are no sentences; a claim and a courtesy are never in one."""
    assert texts(text) == expected


@pytest.mark.parametrize(
    ("marker", "count"),
    [("{}. ", 40), ("Passage {}: ", 40), ("（{}）", 40), ("- ", 40), ("步骤{}：", 40)],
)
@pytest.mark.parametrize("gap", ["", "\n"])
def test_a_long_list_has_as_many_sentences_as_items(marker: str, count: int, gap: str):
    """Markers, on their lines or on lines of their own, add nothing to count."""
    items = (f"{marker.format(number)}{gap}It rained there." for number in range(1, count + 1))
    assert len(split("\n".join(items))) == count


def test_a_line_ends_a_sentence():
    """Headings, rows and items end with their lines, stop or no stop."""
    text = "# Title\nThe text\n\n| a | b. c |\n|---|---|\n| 1 | 2 |\nEnd."
    assert texts(text) == [
        "# Title",
        "The text",
        "| a | b. c |\n|---|---|",
        "| 1 | 2 |",
        "End.",
    ]


def test_a_wrapped_line_goes_on():
    """A line broken in mid-sentence, at the width of a terminal, is one sentence with the next."""
    text = (
        "The tower was finished in the spring of the year\nin which the fair took place. It stands."
    )
    assert len(split(text)) == 2


def test_a_code_block_is_one_sentence():
    """Nothing is cut between fences."""
    text = "Run this:\n```sh\nmake a. b.\n\nmake c\n```\nDone."
    assert texts(text) == ["Run this:", "```sh\nmake a. b.\n\nmake c\n```", "Done."]


def test_an_open_code_block_reaches_to_the_end():
    """An answer that was cut off inside a block is read."""
    assert texts("So:\n```\na. b\nc") == ["So:", "```\na. b\nc"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "en"),
        ("12:30", "en"),
        ("The capital 北京 (Beijing) is large and old.", "en"),
        ("这是一个测试。", "zh"),
        ("使用LangChain的RecursiveCharacterTextSplitter切分文本", "zh"),
    ],
)
def test_language(text: str, expected: str):
    """A text is Chinese if it has more Chinese characters than other words."""
    assert language(text) == expected


@pytest.mark.parametrize(
    ("text", "marker"),
    [
        ("1. First", "1. "),
        ("（1）苹果", "（1）"),
        ("3.5 million", ""),
        ("A cat", ""),
    ],
)
def test_marker_end(text: str, marker: str):
    """The markers at the beginning of a sentence are known, and numbers are none."""
    assert text[: marker_end(text)] == marker


@pytest.mark.parametrize(
    "unit",
    [
        ".",
        "1.",
        "...”",
        "x@y.",
        "|",
        "**",
        "。”",
        "A. ",
    ],
)
def test_a_hundred_kilobytes_of_anything(unit: str):
    """Adversarial repetition ends; every character is still there."""
    text = unit * (100_000 // len(unit))
    joined = "".join(sentence.text for sentence in split(text))
    assert "".join(joined.split()) == "".join(text.split())
