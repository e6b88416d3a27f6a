"""Warm-up: compiles the policies of campaigns at start-up, so that no request has to wait for it.

Machine code cached by an earlier process is loaded, which takes about a second for all policies.
The rest is compiled by child processes, one per core, while this process serves requests. Requests
for a campaign whose policy is not compiled yet are rejected with `NotReady`. Policies that no
campaign uses yet, other than the default one, are compiled at low priority. If nothing can be
cached, for instance in a read-only home folder, this process compiles the policies itself.
"""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, Literal, get_args, get_origin

import msgspec

from entice.jit.specialize import NotCompiled, cache_is_writable, load_only
from entice.model.in_flight import WITHDRAWN
from entice.model.learned_price import LearnedPrice
from entice.parallel import thread_count
from entice.service import logs
from entice.service.domain.campaign import RULES, Campaign
from entice.service.domain.offer import OFFERED, OfferRecord
from entice.service.domain.pending_policies import PENDING
from entice.service.domain.segment_state import LiveSegments, new_segment_counts
from entice.service.domain.spec import CampaignSpec, ServedPolicy

RETRY_LOADING, RETRY_COMPILING = 1, 5
"""Seconds after which to retry while a policy is being loaded, or compiled."""

LOW_PRIORITY = 15
"""Niceness of the compilation of policies that no request waits for."""

_ANY_COUNT, _ANY_NUMBER = 10, 1.0
"""Values that every setting without a default accepts: whole numbers, and others."""

_loaded: set[str] = set()


def kinds() -> list[str]:
    """Return all kinds of policies that a campaign can have."""
    return [str(kind.__struct_config__.tag) for kind in get_args(ServedPolicy)]


class WarmUp:
    """Loads or compiles all policies."""

    def __init__(self) -> None:
        self._open = True
        self._lock = threading.Lock()
        self._processes: list[subprocess.Popen[str]] = []

    def run(self, first: Sequence[str] = ()) -> int:
        """Load all policies, starting with `first`, and compile the rest; block until done.

        Returns the number of kinds that had to be compiled.
        """
        urgent = [*first, *kinds()[:1]]  # the first kind is the default of new campaigns
        order = [kind for kind in dict.fromkeys([*urgent, *kinds()]) if kind not in _loaded]
        PENDING.update(dict.fromkeys(order, RETRY_LOADING))
        try:
            missing = [kind for kind in order if self._open and not _load(kind)]
            if missing:
                PENDING.update(dict.fromkeys(missing, RETRY_COMPILING))
                processes = min(thread_count(None), len(missing))
                with ThreadPoolExecutor(processes) as threads:
                    shares = [missing[i::processes] for i in range(processes)]
                    list(threads.map(partial(self._compile, urgent), shares))
            return len(missing)
        finally:
            for kind in order:  # also after a cancellation or an error
                PENDING.pop(kind, None)

    def cancel(self) -> None:
        """Stop compiling, because the service shuts down."""
        with self._lock:
            self._open = False
            for process in self._processes:
                process.kill()

    def _compile(self, urgent: Sequence[str], share: list[str]) -> None:
        """Compile some policies in a child process, and load each as soon as it is cached."""
        process = self._start(sum(kind in urgent for kind in share), share)
        if process is not None:
            with process:
                assert process.stdout is not None
                for line in process.stdout:
                    _load(line.strip())
            if process.returncode and self._open:
                logs.failure("compiling-process-failed", exit_code=process.returncode)
        for kind in share:
            if self._open and kind not in _loaded:  # the child could not cache it
                _make_ready(kind)

    def _start(self, urgent: int, share: list[str]) -> subprocess.Popen[str] | None:
        command = [sys.executable, "-P", "-m", __name__, str(urgent), *share]
        with self._lock:
            if not self._open:
                return None
            try:
                process = subprocess.Popen(
                    command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
                )
            except OSError as error:
                logs.failure("compiling-process-failed", error=type(error).__name__)
                return None
            self._processes.append(process)
            return process


def _load(kind: str) -> bool:
    """Load a policy without compiling; return whether it was cached."""
    try:
        with load_only():
            _make_ready(kind)
    except NotCompiled:
        return False
    return True


def _make_ready(kind: str) -> None:
    try:
        _exercise_all(kind)
    except NotCompiled:
        raise
    except Exception as error:  # reported again by a request for an offer
        logs.unexpected(error, during="warm-up")
    _loaded.add(kind)
    PENDING.pop(kind, None)


def _exercise_all(kind: str) -> None:
    for policy in variants(kind):
        exercise(policy)


def variants(kind: str) -> list[ServedPolicy]:
    """Return one policy of a kind for each combination of functions to compile."""
    found: dict[Any, ServedPolicy] = {}
    [spec] = [spec for spec in get_args(ServedPolicy) if spec.__struct_config__.tag == kind]
    fields = msgspec.structs.fields(spec)
    for values in itertools.product(*map(_values, fields)):
        policy = spec(**{field.name: v for field, v in zip(fields, values, strict=True)})
        rules = policy.kernel(2)
        found.setdefault((rules.functions, tuple(map(type, rules.params))), policy)
    return list(found.values())


def _values(field: msgspec.structs.FieldInfo) -> list[Any]:
    """Return the values of a setting that may select different functions."""
    parts = get_args(field.type) or (field.type,)
    if get_origin(field.type) is Literal:
        return list(parts)
    if bool in parts:
        return [False, True]
    default = [] if field.default is msgspec.NODEFAULT else [field.default]
    if str in parts:  # free text does not select a function
        return default
    accepted = _ANY_COUNT if int in parts else _ANY_NUMBER
    return [*default, accepted] if type(None) in parts or not default else default


def exercise(policy: ServedPolicy) -> None:
    """Call every compiled function that requests use, on a temporary campaign."""
    price = None if policy.equal_pay else LearnedPrice()
    spec = CampaignSpec(
        name="warm-up", arms=["a", "b"], budget=0, price_of_a_star=1, policy=policy, seed=0,
        price=price,
    )  # fmt: skip
    campaign = Campaign.create("c_warm_up", spec, 0, rules=1)
    campaign.upgrade(0, RULES, [])  # as for campaigns created by an earlier version
    campaign.decide(0, campaign.limit(0), None, None)
    campaign.begin_pull(1, 0, 0)
    campaign.state.status = "paused"
    campaign.decide(0, campaign.limit(0), None, None)
    campaign.end_pull(1, 0, 0, WITHDRAWN)
    campaign.update_arm(0, True, 0.0, spec.lowest_rating)
    campaign.displayed_stars()
    campaign.expected()
    if campaign.pricing is not None:
        offer = OfferRecord(
            1, b"", OFFERED, 0, 0, 1, 0, 1.0, 1, None, "explore", 1.0, None, None, 0, 0, None, []
        )
        campaign.pricing.record_answer(offer, True)
    segments = LiveSegments(new_segment_counts(1, 1), ["one"], 1)
    segments.count(0, 0, 1, 1)
    segments.update_arm(0, 1, 1, (0, 1))


def main(urgent: int, share: Sequence[str]) -> None:
    """Compile some kinds of policies, and print each one once its code is cached.

    All but the first `urgent` ones are compiled at low priority.
    """
    if not cache_is_writable():
        sys.exit(1)  # the parent compiles the policies itself
    for number, kind in enumerate(share):
        if number == urgent:
            os.nice(LOW_PRIORITY)
        _exercise_all(kind)
        print(kind, flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:])
