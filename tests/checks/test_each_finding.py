"""Every kind of finding has a broken program with it, and a healthy one in which it is silent."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path
from typing import get_args

import pytest
import test_broken_scripts  # noqa: F401  it enters all scripts
from broken_scripts import BROKEN
from healthy_scripts import HEALTHY

from gradwalk.schema.findings import FindingKind

TESTS = Path(__file__).parents[1]

CHECKS, RANKS = "checks/test_", "features/ranks/test_"
DIAGNOSE, NUMBERS = CHECKS + "diagnose.py::", CHECKS + "wrong_numbers.py::"
QUIET, FILES = CHECKS + "no_false_alarm.py::", RANKS + "files_of_ranks.py::"

PROGRAMS = {
    "vanishing": (
        "12 sigmoids",
        DIAGNOSE + "test_a_branch_beside_a_sound_one_does_not_vanish",
    ),
    "exploding": ("an exploding RNN", "packed sequences"),
    "dead": (
        "a dead ReLU",
        DIAGNOSE + "test_another_threshold_than_that_of_a_relu_is_no_dead_unit",
    ),
    "nan": ("the logarithm of zero", NUMBERS + "test_a_masked_softmax_without_nan_is_silent"),
    "no-grad": (
        "a branch that is not used",
        DIAGNOSE + "test_a_gradient_that_exists_is_never_denied",
    ),
    "cut": (
        "a tensor of a list",
        QUIET + "test_a_gradient_that_is_stopped_on_purpose_is_no_alarm",
    ),
    "memory": (
        DIAGNOSE + "test_the_largest_holders_of_memory_are_named_in_order",
        DIAGNOSE + "test_little_memory_is_not_worth_a_note",
    ),
    "held": (
        "features/held/test_growing.py::test_a_list_of_losses_is_a_finding",
        "features/held/test_growing.py::test_a_healthy_loop_raises_no_alarm",
    ),
    "no-backward": (
        "an accumulated loss that is backwarded twice",
        QUIET + "test_the_loss_of_an_open_widget_has_its_pass",
    ),
    "failed": (
        DIAGNOSE + "test_a_part_that_fails_takes_no_other_with_it",
        QUIET + "test_a_view_of_a_wrapper_whose_base_nobody_holds_is_measured",
    ),
    "zero": (
        "round in the middle",
        DIAGNOSE + "test_a_number_too_small_to_square_is_not_called_zero",
    ),
    "frozen": ("frozen by a typo", "preferences against a frozen reference (DPO)"),
    "leaf": ("the loss is made anew from its number", "loss values kept as numbers"),
    "unregistered": ("a plain tensor in a module", "parametrizations from the start"),
    "tied": ("weights tied by their data", "a masked language model with tied weights"),
    "optimizer": (
        "optimizer before the model is made again",
        "an actor in one optimizer, its critic in another",
    ),
    "accumulated": ("no zero_grad", "gradients accumulated over parts"),
    "clipped": ("a step of GradScaler without unscale", NUMBERS + "test_as_it_should_be"),
    "changed": (
        "a saved tensor changed in place",
        QUIET + "test_a_completed_pass_is_no_error",
    ),
    "eval": (
        "batch norm left in eval",
        "adaptation at test time of norms alone, by entropy",
    ),
    "broadcast": ("(N, 1) minus (N,)", "a Gaussian process by its marginal likelihood"),
    "softmax-twice": ("softmax before cross_entropy", "early exits, of which one is trained"),
    "sigmoid-twice": (
        "sigmoid before binary_cross_entropy_with_logits",
        "a U-Net with Dice and binary cross entropy",
    ),
    "no-log-probabilities": ("nll_loss of logits", "nll_loss of log probabilities"),
    "target": ("bce with targets of -1", "a U-Net with Dice and binary cross entropy"),
    "large": ("a huge loss", "sum of squares of a large batch"),
    "cleared": (
        "zero_grad between backward and step",
        NUMBERS + "test_a_gradient_cleared_before_the_next_pass_is_lost",
    ),
    "freed": (
        "a hidden state that is kept",
        NUMBERS + "test_a_step_between_two_backward_passes_is_not_state",
    ),
    "not-a-leaf": ("an update that makes another tensor", "sharpness-aware minimisation"),
    "backward-failed": (
        NUMBERS + "test_a_backward_that_raised",
        QUIET + "test_a_completed_pass_is_no_error",
    ),
    "shared-module": (
        NUMBERS + "test_one_module_in_several_places_of_a_container",
        NUMBERS + "test_what_shares_no_parameter_is_silent",
    ),
    "unused-backward": (
        NUMBERS + "test_a_backward_of_a_module_is_never_called",
        NUMBERS + "test_a_backward_that_starts_a_pass_is_silent",
    ),
    "changed-gradient": (
        NUMBERS + "test_a_gradient_changed_in_place_for_another_consumer",
        NUMBERS + "test_a_gradient_of_one_consumer_may_change_in_place",
    ),
    "repeated-index": (
        NUMBERS + "test_writes_to_repeated_indices",
        NUMBERS + "test_what_adds_all_of_them_is_silent",
    ),
    "constant-term": (
        CHECKS + "constant_terms.py::test_a_term_without_a_gradient",
        CHECKS + "constant_terms.py::test_a_healthy_loss_is_silent",
    ),
    "scaled": (
        NUMBERS + "test_clipped_before_unscaling",
        NUMBERS + "test_weighting_a_loss_is_not_scaling",
    ),
    "padding": (
        NUMBERS + "test_the_last_step_is_padding_in_the_shorter",
        NUMBERS + "test_what_takes_no_padding_is_silent",
    ),
    "dominated": ("one of two losses dominates", "an actor and a critic in one loss"),
    "shared-memory": ("an average that is the model", "an average made by deepcopy"),
    "recomputed": ("dropout that is drawn anew", "dropout in a checkpointed part"),
    "counting": ("a mean of masked losses", "a masked loss divided by its mask"),
    "step": (
        CHECKS + "steps.py::test_a_step_that_is_rounded_away",
        CHECKS + "steps.py::test_a_sound_step",
    ),
    "alike": ("constant weights before a batch norm", "zeros at the start of a last layer"),
    "unused-result": ("a complex number cast to real", "a magnitude of complex numbers"),
    "mixed-rows": (
        "a view where a transpose was meant",
        "features/dependencies/test_dependencies.py::test_what_mixes_on_purpose_is_silent",
    ),
    "unused-on-rank": (
        FILES + "test_a_parameter_that_some_ranks_leave_out",
        FILES + "test_other_weights_on_each_rank_need_not_agree",
    ),
    "not-reduced": (
        FILES + "test_gradients_that_were_not_reduced",
        FILES + "test_other_weights_on_each_rank_need_not_agree",
    ),
    "drifted": (
        FILES + "test_copies_that_began_from_another_seed",
        FILES + "test_other_weights_on_each_rank_need_not_agree",
    ),
    "nan-on-rank": (
        FILES + "test_nan_on_one_rank",
        FILES + "test_one_picture_with_the_gradients_of_every_rank",
    ),
    "large-on-rank": (
        FILES + "test_one_rank_with_a_much_larger_gradient",
        FILES + "test_one_picture_with_the_gradients_of_every_rank",
    ),
    "not-alike": (
        RANKS + "ranks.py::test_what_is_planted_in_real_processes_is_found",
        RANKS + "tensor_parallel.py::test_tensor_parallel",
    ),
    "same-batch": (
        FILES + "test_ranks_that_had_the_same_batch",
        FILES + "test_one_picture_with_the_gradients_of_every_rank",
    ),
    "ranks": (
        FILES + "test_a_missing_rank_and_other_versions_are_told",
        FILES + "test_one_picture_with_the_gradients_of_every_rank",
    ),
}
"""Kind -> the broken and the healthy program: the name of a script, or the file and test."""


@cache
def names_in(file: str) -> dict[str, str]:
    """The tests of a file, by name -> their text."""
    text = (TESTS / file).read_text(encoding="utf-8")
    found = (node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.FunctionDef))
    return {node.name: ast.get_source_segment(text, node) or "" for node in found}


def is_test(program: str) -> bool:
    file, _, name = program.partition("::")
    return name in names_in(file)


@pytest.mark.parametrize("kind", get_args(FindingKind))
def test_a_finding_has_a_broken_and_a_healthy_program(kind):
    assert kind in PROGRAMS, (
        f"The finding {kind!r} has no programs. Add a broken program that has it and a healthy one "
        "like it that has not, as scripts in tests/support or as tests, and name both in PROGRAMS."
    )
    broken, healthy = PROGRAMS[kind]
    if "::" in broken:
        assert is_test(broken), f"There is no test {broken}."
        text = (TESTS / broken.partition("::")[0]).read_text(encoding="utf-8")
        assert f'"{kind}"' in text, f"{broken} names no finding {kind!r}."
    else:
        assert kind in BROKEN[broken].kinds, f"{broken!r} must be found as {kind!r}."
    assert is_test(healthy) if "::" in healthy else healthy in HEALTHY, f"no {healthy!r}"


def test_the_table_has_no_other_kind():
    assert PROGRAMS.keys() <= {*get_args(FindingKind)}
