"""The reference on disk: one for all processes of a service, and for those to come."""

import json

import pytest

from ragmonitor.estimation.drift import STATE_VERSION, InputDrift
from ragmonitor.estimation.signals import NEW_QUESTION
from ragmonitor.guard import errors
from ragmonitor.metrics import REFERENCE_RATIO
from ragmonitor.state import StateFile
from ragmonitor.testing import ManualClock
from tests.support.questions import ASKED, UNASKED, complete, interaction, questions

SIZE = 200
HOUR_S = 3_600


class Process:
    """One process of a service: a drift of its own, a file with others."""

    def __init__(self, folder, *, wall=lambda: 0.0, **options):
        self.clock = ManualClock()
        self.file = StateFile.of_service(folder, "drift", "shop", version=STATE_VERSION)
        self.drift = InputDrift(
            **{"size": SIZE, "state": self.file, "clock": self.clock, "wall": wall, **options}
        )

    def observe(self, asked, name):
        for at, query in enumerate(asked):
            self.drift.observe(interaction(query, id_=f"{name}-{at}"), at_s=at)

    def later(self):
        """Let time pass until the file is looked at again, and finish what follows."""
        self.clock.advance(HOUR_S)
        assert complete(self.drift)

    @property
    def collected(self):
        (ratio,) = (r.value for r in self.drift.gauges() if r.name == REFERENCE_RATIO)
        return ratio


def novel(drift, asked):
    drift.take()
    for at, query in enumerate(asked):
        drift.observe(interaction(query, id_=f"fresh-{at}"), at_s=at)
    return [observed.outcomes.get(NEW_QUESTION) for observed in drift.take()]


FRESH = questions(ASKED, 50, seed=8) + questions(UNASKED, 50, seed=9)


def test_a_restart_changes_no_outcome(tmp_path):
    """The reference that is read is the one that was frozen."""
    first = Process(tmp_path)
    first.observe(questions(ASKED, SIZE), "a")
    first.later()
    second = Process(tmp_path)
    second.later()
    assert second.drift.reference.version == first.drift.reference.version
    assert novel(second.drift, FRESH) == novel(first.drift, FRESH)
    assert any(novel(second.drift, FRESH))


def test_a_restart_goes_on_collecting(tmp_path):
    """What was collected is kept at the end."""
    first = Process(tmp_path)
    first.observe(questions(ASKED, SIZE // 2), "a")
    first.drift.close()
    second = Process(tmp_path)
    second.later()
    assert second.collected == 0.5


def test_processes_collect_together(tmp_path):
    """Two halves are one reference, of one version in both."""
    first, second = Process(tmp_path), Process(tmp_path)
    first.observe(questions(ASKED, SIZE // 2, seed=1), "a")
    first.later()
    second.observe(questions(ASKED, SIZE // 2, seed=2), "b")
    second.later()
    first.later()
    assert first.drift.reference.version == second.drift.reference.version


def test_only_one_process_fits(tmp_path):
    """Others wait for who began, and read what it froze."""
    first, second = Process(tmp_path), Process(tmp_path)
    first.observe(questions(ASKED, SIZE), "a")
    first.clock.advance(HOUR_S)
    first.drift.take()  # claims it, and does not come far
    second.later()
    assert second.drift.reference is None
    first.later()
    second.later()
    assert second.drift.reference is not None


def test_a_process_that_died_fitting_is_replaced(tmp_path):
    """A claim ends after an hour."""
    first = Process(tmp_path)
    first.observe(questions(ASKED, SIZE), "a")
    first.clock.advance(HOUR_S)
    first.drift.take()
    second = Process(tmp_path, wall=lambda: 2 * HOUR_S)
    second.later()
    assert second.drift.reference is not None


def test_a_process_that_ends_fitting_is_replaced_at_once(tmp_path):
    """Who closes gives its claim back."""
    first = Process(tmp_path)
    first.observe(questions(ASKED, SIZE), "a")
    first.clock.advance(HOUR_S)
    first.drift.take()
    first.drift.close()
    second = Process(tmp_path)
    second.later()
    assert second.drift.reference is not None


@pytest.mark.parametrize("other", [{"size": SIZE + 1}, {"embed": lambda t: [[1.0]] * len(t)}])
def test_another_embedding_collects_anew(tmp_path, other):
    """A reference of another size or embedding is no drift, and not used."""
    first = Process(tmp_path)
    first.observe(questions(ASKED, SIZE), "a")
    first.later()
    second = Process(tmp_path, **other)
    second.later()
    assert second.collected == 0
    second.drift.close()


def test_an_old_release_leaves_the_file_to_the_new_one(tmp_path):
    """While both run, they do not take turns in throwing away what the other collected."""
    old, new = Process(tmp_path), Process(tmp_path, size=2 * SIZE)
    old.observe(questions(ASKED, 50), "a")
    old.later()
    new.observe(questions(ASKED, 50), "b")
    new.later()
    old.later()
    old.observe(questions(ASKED, SIZE), "c")
    old.later()
    assert old.drift.reference is not None
    assert json.loads(new.file.path.read_text())["collected"]["count"] == 50


@pytest.mark.parametrize(
    "content",
    [
        "not json",
        '{"version": 0}',
        '{"version": 2, "made_of": "grams@1 200", "reference": {"kind": "hashed"}}',
        '{"version": 2, "made_of": "grams@1 200", "collected": {"count": 3}}',
        '{"version": 2, "made_of": "grams@1 200", "collected": [], "claim": 7}',
    ],
)
def test_a_broken_file_is_counted_and_collected_anew(tmp_path, content):
    """It costs the reference, and nothing else."""
    process = Process(tmp_path)
    process.file.path.write_text(content)
    before = errors["drift"]
    process.observe(questions(ASKED, SIZE), "a")
    for _ in range(3):
        process.later()
        process.observe(questions(ASKED, SIZE), "b")
    assert errors["drift"] > before
    assert process.drift.reference is not None


def test_without_a_disk_the_reference_is_kept_in_memory(tmp_path):
    """A folder that cannot be made is counted, and does not end the watch."""
    (tmp_path / "taken").write_text("a file where a folder should be")
    before = errors["state"]
    process = Process(tmp_path / "taken")
    process.observe(questions(ASKED, SIZE), "a")
    process.later()
    assert errors["state"] > before
    assert process.drift.reference is not None


@pytest.mark.parametrize("size", [SIZE, 2 * SIZE])
def test_no_text_of_a_question_is_on_disk(tmp_path, size):
    """Neither while it is collected nor when it is frozen."""
    process = Process(tmp_path, size=size)
    process.observe([f"Where is parcel zebra{at} of Mrs Quixote?" for at in range(SIZE)], "a")
    process.later()
    told = process.file.path.read_text()
    assert told
    for word in ("zebra", "Quixote", "quixote", "parcel"):
        assert word not in told


def test_a_forked_child_reads_the_frozen_reference(tmp_path):
    """It forgets its parent's memory, and has the file."""
    process = Process(tmp_path)
    process.observe(questions(ASKED, SIZE), "a")
    process.later()
    process.drift.clear()
    process.later()
    assert process.drift.reference is not None
