from hypothesis import given
from hypothesis import strategies as st

from gradwalk.features.repeats.step_boxes import LEAST_COUNT, LEAST_COVERED, find_runs


def test_finds_a_repetition_and_leaves_the_rest_out():
    assert find_runs("xy" + "abcd" * 6 + "zz") == [(2, 26, 4)]


def test_finds_two_loops_one_after_the_other():
    assert find_runs("ab" * 9 + "cde" * 7) == [(0, 18, 2), (18, 39, 3)]


def test_finds_the_outer_one_of_two_loops():
    assert find_runs(("aaaaaaaab" + "c") * 5) == [(0, 50, 10)]


def test_finds_a_loop_whose_body_repeats_itself():
    body = "abcde" + "xyabcde" * 3 + "xxyyxy"
    assert find_runs(body * 15) == [(0, 480, 32)]


def test_few_or_short_repetitions_are_none():
    assert find_runs("abcdefgh" * 3) == []
    assert find_runs("ab" * 5) == []
    assert find_runs("abcdefghijklmnopqrstuvwxyz") == []
    assert find_runs("") == []


@given(st.text("abc", max_size=200), st.text("abcd", min_size=1, max_size=6), st.text("abc"))
def test_each_run_repeats_and_none_overlap(before, segment, after):
    tokens = before + segment * 20 + after
    runs = find_runs(tokens)
    covered = [place for run in runs for place in range(run.start, run.stop)]
    assert len(covered) == len(set(covered))
    for start, stop, period in runs:
        assert stop - start >= max(LEAST_COVERED, LEAST_COUNT * period)
        assert tokens[start : stop - period] == tokens[start + period : stop]


def test_takes_a_long_sequence():
    assert find_runs([i % 100 for i in range(100_000)]) == [(0, 100_000, 100)]
    assert find_runs(list(range(100_000))) == []
