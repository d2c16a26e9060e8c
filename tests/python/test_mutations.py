"""Waits and barriers removed from compiled kernels, one at a time, and counts loosened by one: the emulator's checks notice
it, or a trace proves that the kernel does not need what was removed."""

from __future__ import annotations

import random
import struct

import judge_cases
import judge_kernels as kernels
import judge_mutated
import pytest
from judge_kernels import BARRIER, LDS_DONE, LOAD, LOADED, START, STORE

from jaxator import _targets
from jaxator.judge.mutations import Outcome, mutations, try_all
from jaxator.judge.redundancy import COVERED, PACING

pytestmark = pytest.mark.skipif(_targets.emulation_refusal() is not None, reason="the emulator is not built")
every_architecture = pytest.mark.parametrize("architecture", judge_cases.ARCHITECTURES)

WRITE, READ_OWN = " ds_write_b128 v2, v[4:7]\n", " ds_read_b128 v[4:7], v2\n"
# Thread t reads what thread 255 - t wrote.
READ_OTHER = " v_sub_u32_e32 v3, 0xff0, v2\n ds_read_b128 v[4:7], v3\n"


def outcomes(body: str, architecture: str = "gfx942", lds: int = 4096) -> dict[str, Outcome]:
    """change -> outcome, for the kernel's last instruction with that change; START's wait is left out."""
    launch = kernels.launch(body, architecture, lds=lds)
    chosen = [mutation for mutation in mutations(launch) if mutation.address > mutations(launch)[0].address]
    return {str(outcome.mutation).split(" ", 1)[1]: outcome for outcome in try_all([launch], chosen)}


# ---- planted ---------------------------------------------------------------------------------------------------------


@every_architecture
def test_what_is_needed_is_noticed(architecture: str) -> None:
    found = outcomes(START + LOAD + LOADED + WRITE + LDS_DONE + BARRIER + READ_OTHER + LDS_DONE + STORE, architecture)
    assert found["s_waitcnt vmcnt(0): no vmcnt"].noticed.startswith("missing wait: v[4:7] is used")
    assert found["s_waitcnt vmcnt(0): vmcnt + 1"].noticed.startswith("missing wait")
    assert found["s_waitcnt lgkmcnt(0): no lgkmcnt"].noticed.startswith("missing wait: v[4:7] is used")
    assert "LDS race" in found["s_barrier: no barrier"].noticed
    assert not any(outcome.survived or outcome.redundant for outcome in found.values()) and len(found) == 5


def test_the_wait_before_a_barrier_is_noticed() -> None:
    launch = kernels.launch(START + LOAD + LOADED + WRITE + LDS_DONE + BARRIER + READ_OTHER + LDS_DONE + STORE, lds=4096)
    first, *_ = [m for m in mutations(launch) if m.change == "no lgkmcnt" and m.address > mutations(launch)[0].address]
    (outcome,) = try_all([launch], [first])
    assert "LDS race" in outcome.noticed


def test_a_wait_that_another_covers_is_proved_redundant() -> None:
    found = outcomes(START + LOAD + " s_waitcnt vmcnt(2)\n" + LOADED + STORE)
    assert found["s_waitcnt vmcnt(2): no vmcnt"].redundant == found["s_waitcnt vmcnt(2): vmcnt + 1"].redundant == COVERED
    assert found["s_waitcnt vmcnt(0): no vmcnt"].noticed


def test_a_counter_at_its_most_is_a_wait() -> None:
    """The sixteenth read from LDS is issued when the first is done, so that a count of 15 or of 14 needs no wait for it."""
    reads = "".join(f" ds_read_b32 v{20 + k}, v1 offset:{4 * k}\n" for k in range(16))
    body = START + LOAD + LOADED + WRITE + LDS_DONE + BARRIER + reads + " s_waitcnt lgkmcnt(14)\n v_mov_b32_e32 v{}, v20\n"
    body += LDS_DONE + STORE
    assert outcomes(body.format(5))["s_waitcnt lgkmcnt(14): no lgkmcnt"].redundant == COVERED
    second = body.replace("v20\n" + LDS_DONE, "v21\n" + LDS_DONE).format(5)
    assert outcomes(second)["s_waitcnt lgkmcnt(14): no lgkmcnt"].noticed.startswith("missing wait: v21 is used")


def test_a_barrier_of_waves_that_touch_only_their_own_is_pacing() -> None:
    found = outcomes(START + LOAD + LOADED + WRITE + LDS_DONE + BARRIER + READ_OWN + LDS_DONE + STORE)
    assert found["s_barrier: no barrier"].redundant == PACING


def test_two_barriers_in_a_row() -> None:
    """Each alone is enough, so neither is needed; a proof that forgot the other one would fail here."""
    body = START + LOAD + LOADED + WRITE + LDS_DONE + BARRIER + BARRIER + READ_OTHER + LDS_DONE + STORE
    launch = kernels.launch(body, lds=4096)
    barriers = [mutation for mutation in mutations(launch) if mutation.change == "no barrier"]
    assert [outcome.redundant for outcome in try_all([launch], barriers)] == [PACING, PACING]


def test_a_loop_whose_only_barrier_is_needed_in_the_next_round() -> None:
    """Within a round every wave touches its own part; the next round reads the part of another one."""
    body = START + LOAD + LOADED + " s_mov_b32 s8, 0\n v_mov_b32_e32 v3, v2\n.Lloop:\n ds_write_b128 v2, v[4:7]\n" + LDS_DONE
    body += BARRIER + " ds_read_b128 v[4:7], v3\n" + LDS_DONE + " v_sub_u32_e32 v3, 0xff0, v2\n s_add_u32 s8, s8, 1\n"
    body += " s_cmp_lt_u32 s8, 3\n s_cbranch_scc1 .Lloop\n" + STORE
    # With one barrier a round, a wave may write before another has read: the kernel has a race as it is.
    found = outcomes(body)
    assert not found["s_barrier: no barrier"].redundant


def test_what_is_never_executed_is_told_apart() -> None:
    body = START + LOAD + LOADED + " s_cmp_eq_u32 s2, 7\n s_cbranch_scc0 .Lend\n s_barrier\n.Lend:\n" + STORE
    outcome = outcomes(body)["s_barrier: no barrier"]
    assert not outcome.reached and not outcome.survived


def test_both_counts_of_one_wait() -> None:
    launch = kernels.launch(START + LOAD + WRITE + " s_waitcnt vmcnt(1) lgkmcnt(1)\n" + LOADED + LDS_DONE + STORE, lds=4096)
    words = {m.change: m.word for m in mutations(launch) if "vmcnt(1)" in m.text}
    # vmcnt is in bits 0 to 3 and 14 to 15, lgkmcnt in bits 8 to 11; all ones do not wait.
    assert words == {"no vmcnt": 0xBF8CC17F, "vmcnt + 1": 0xBF8C0172, "no lgkmcnt": 0xBF8C0F71, "lgkmcnt + 1": 0xBF8C0271}


def test_a_count_just_below_no_wait_is_loosened_once() -> None:
    changes = [m.change for m in mutations(kernels.launch(START + " s_waitcnt lgkmcnt(14)\n s_waitcnt vmcnt(62)\n"))][2:]
    assert changes == ["no lgkmcnt", "no vmcnt"]


def test_mutants_differ_from_the_code_object_in_one_word() -> None:
    from jaxator.judge.mutations import _with_word

    launch = kernels.launch(kernels.COPY)
    for mutation in mutations(launch):
        changed = _with_word(launch.image, mutation.address, mutation.word)
        places = [k for k in range(0, len(changed) - 3, 4) if changed[k : k + 4] != launch.image[k : k + 4]]
        assert len(changed) == len(launch.image) and len(places) == 1
        assert struct.unpack_from("<I", launch.image, places[0])[0] >> 16 == 0xBF8C


# ---- the kernels of the tree -----------------------------------------------------------------------------------------

SAMPLE = 3  # mutations of a kernel


@every_architecture
def test_a_sample_of_mutations(architecture: str) -> None:
    survivors, tried = [], 0
    for kernel, launches in judge_mutated.launches_to_mutate(architecture, "bfloat16", quick=True).items():
        every = mutations(launches[0])
        chosen = random.Random(f"{kernel} {architecture}").sample(every, min(SAMPLE, len(every)))
        for outcome in try_all(launches, chosen):
            tried += outcome.reached
            if outcome.survived:
                survivors.append(f"{kernel}: {outcome.mutation}")
    assert tried >= 30 and len(survivors) <= 0.05 * tried, "\n".join(survivors)


@pytest.mark.full
@pytest.mark.parametrize("family", judge_mutated.FAMILIES)
@every_architecture
def test_all_mutations(architecture: str, family: str) -> None:
    """At least 95 % of what matters is noticed; the rest is in the document, as are the few that no launch reaches."""
    noticed = survived = unreached = 0
    every = judge_mutated.launches_to_mutate(architecture, "bfloat16", quick=False, families=(family,))
    for kernel, launches in every.items():
        for outcome in try_all(launches):
            noticed += bool(outcome.noticed or outcome.wrong_result)
            survived += outcome.survived
            unreached += not outcome.reached
            if outcome.survived:
                print(f"{architecture} {kernel}: {outcome.mutation}")
    assert noticed >= 40 and survived <= 0.05 * (noticed + survived) and unreached <= 0.2 * noticed
