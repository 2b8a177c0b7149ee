"""Changes of one place in emitted `.pto` texts: those that change the meaning are noticed; those that are argued to
keep it run as before."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import pytest

from pypto_lab.ir.diagnostics import LabError
from pypto_lab.pto.mutations.__main__ import main
from pypto_lab.pto.mutations.make import KINDS, mutate, sites
from pypto_lab.pto.mutations.meaning import kept
from pypto_lab.pto.mutations.measure import Subject, Trial, draw, measure, notice, subject, table
from pypto_lab.pto.parse import parse
from tests.pto.texts import KERNELS, Text, tile

CHOSEN = (
    ("k02_shrinking_store", "a2a3"),  # a while loop, extents set at run time, padding that is filled
    ("k02_shrinking_store", "a5"),
    ("k09_softmax_rows", "a5"),  # a tail of rows
    ("k13_matmul_kacc", "a2a3"),  # a product accumulated over a loop
    ("k17_bias_updown", "a2a3"),  # cube and vector, UP_DOWN
    ("k18_bias_leftright", "a5"),  # LEFT_RIGHT
    ("k21_dyn_tail_fillpad", "a2a3"),  # dynamic shapes, padding that is filled with three values
    ("k21_dyn_tail_fillpad", "a5"),
    ("k22_carried_loops", "a2a3"),  # tiles carried by loops
    ("k29_spmd_blocks", "a2a3"),  # several blocks
    ("k31_pipe_nosplit", "a2a3"),  # a pipe without a split
    ("k32_pipe_bidir_dual", "a2a3"),  # both directions, two lanes
    ("k34_paged_attend", "a2a3"),  # windows at offsets that are read from memory
)


@pytest.fixture(scope="module")
def subjects() -> list[Subject]:
    return [subject(KERNELS / kernel / "kernel.py", arch) for kernel, arch in CHOSEN]


def test_the_texts_are_noticed_by_nobody_as_they_are(subjects: list[Subject]) -> None:
    for own in subjects:
        for name, unit in own.units.items():
            assert notice(own, name, unit.text) is None


def test_95_of_100_changes_of_meaning_are_noticed(subjects: list[Subject]) -> None:
    trials = measure(subjects, 100, seed=0)
    changing = [t for t in trials if t.kept is None]
    missed = [t for t in changing if t.noticed is None]
    shown = "\n".join([table(trials), *map(str, missed)])
    assert len(changing) == 100
    assert len(missed) <= 5, shown
    assert set(Counter(t.mutation.kind for t in changing)) == set(KINDS), shown
    assert all(any(t.kept for t in trials if t.mutation.kind == kind) for kind in ("address", "pad")), shown


def test_what_is_argued_to_keep_the_meaning_runs_as_before(subjects: list[Subject]) -> None:
    """The argument is checked from the other side: none of these texts is noticed."""
    rng = random.Random(4)
    found = 0
    for kind in ("address", "stride", "valid", "pad", "offset", "dtype") * 20:
        drawn = draw(subjects, kind, rng)
        if drawn is None or (kind == "pad" and found % 3):
            continue
        own, unit, mutation = drawn
        why = kept(own.units[unit], mutation)
        if why is not None:
            found += 1
            assert notice(own, unit, mutation.text) is None, f"{mutation}: {why}"
        if found == 16:
            break
    assert found == 16


def test_a_mutation_is_repeatable_and_changes_what_it_says(subjects: list[Subject]) -> None:
    unit = subjects[0].units["shrink"]
    for kind in KINDS:
        places = sites(unit, kind)
        if kind == "split":
            assert not places  # nothing is pushed here
            continue
        assert places
        first, second = (mutate(unit, places[0], random.Random(1)) for _ in range(2))
        assert first is not None
        assert first == second
        assert first.text != unit.text
        assert first.before != first.after
        assert unit.text.splitlines()[first.line - 1].strip().startswith(("%", "pto.", "func.func"))


def test_a_type_that_is_changed_in_one_place_only_cannot_be_read(subjects: list[Subject]) -> None:
    text = subjects[0].units["shrink"].text
    lines = text.splitlines()
    place = next(i for i, line in enumerate(lines) if "pto.alloc_tile" in line)
    for old, new in (("pad=0", "pad=1"), ("dtype=f32", "dtype=i32"), ("cols=64", "cols=32")):
        assert old in lines[place]
        changed = [*lines[:place], lines[place].replace(old, new), *lines[place + 1 :]]
        with pytest.raises(LabError) as error:
            parse("\n".join(changed) + "\n")
        assert error.value.diagnostics[0].code == "E601"


# --- the argument on small texts --------------------------------------------------------------------------------------


def small() -> Text:
    """Two loads, a sum that reads both, a tile that is filled, all apart from each other."""
    text = Text("f32", "f32", "f32")
    text.alloc("a", tile(8, 32), 0)
    text.load("a", 0, (8, 32))
    text.alloc("b", tile(8, 32), 1024)
    text.load("b", 1, (8, 32))
    text.alloc("c", tile(8, 32), 0)
    text.op("tadd", ["a", "b"], ["c"])
    text.store("c", 2, (8, 32))
    return text


def moved(name: str, address: int) -> str | None:
    """What is argued about a tile of `small` that lies elsewhere."""
    unit = parse(small().text(), "f.pto")
    for place in sites(unit, "address"):
        for seed in range(60):
            made = mutate(unit, place, random.Random(seed))
            if made is not None and (made.value, made.after) == (name, str(address)):
                return kept(unit, made)
    raise AssertionError(f"%{name} is never moved to {address}")


def test_a_tile_may_move_where_nothing_lives() -> None:
    assert moved("b", 2048) == "every read sees the writes it saw"
    assert moved("c", 1024) == "every read sees the writes it saw"  # in place of the other operand


def test_a_tile_may_not_move_onto_a_live_one_off_the_grid_or_out_of_memory() -> None:
    assert moved("b", 0) is None
    assert moved("a", 4) is None
    assert moved("c", 192 * 1024 - 512) is None


def test_the_command_prints_the_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(tmp_path)]) == 2
    folder = tmp_path / "k14_splitk_atomic"
    folder.mkdir()
    source = KERNELS / "k14_splitk_atomic" / "kernel.py"
    (folder / "kernel.py").write_text(source.read_text(encoding="utf-8"), encoding="utf-8")
    capsys.readouterr()
    assert main([str(tmp_path), "--count", "6", "--all"]) == 0
    out = capsys.readouterr().out
    last = out.splitlines()[-1].split()
    assert (last[0], last[3], last[4]) == ("all", "6", "6")
    assert "keep the meaning" in out


def test_a_trial_reads_as_a_sentence(subjects: list[Subject]) -> None:
    own = subjects[0]
    made = mutate(own.units["shrink"], sites(own.units["shrink"], "pad")[0], random.Random(0))
    assert made is not None
    text = str(Trial(own.name, "shrink", made, None))
    assert text.startswith("k02_shrinking_store/a2a3, shrink.pto: pad of %t__ssa_v0: 0 -> ")
    assert text.endswith("NOT NOTICED")
