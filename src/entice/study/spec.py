"""The spec of a study, all settings that determine its numbers, as TOML and as JSON."""

from __future__ import annotations

import hashlib
import math
import secrets
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Literal, get_args

import msgspec
import numpy as np
import numpy.typing as npt
import tomli_w

from entice.checks import as_number, as_seed, as_whole_number, is_list, set_number, set_whole
from entice.engine.fast.selection import FastPath, fast_path
from entice.engine.kernel import METRICS, RESPONSE_METRICS, RUNAWAY, replicate
from entice.engine.segments import check_segments, offer_function
from entice.errors import InputError
from entice.jit.decorators import import_path
from entice.jit.fingerprint import NoFingerprint, fingerprint
from entice.labels import unique_labels
from entice.model.probe import Probe
from entice.policies import Policy
from entice.policies.policy import check_probe
from entice.spec_parsing import (
    UNIONS,
    as_table,
    build_spec,
    expand_sweep,
    kind_names,
    parse_entry,
    read_text,
    without_none,
)
from entice.user_functions import importable
from entice.worlds.adversaries import Adversary, NoAdversary
from entice.worlds.changing_arms import Arms, Changing, Wandering
from entice.worlds.drifts import ArmDrift, Drift, NoDrift
from entice.worlds.players import MAX_DELAY_ROUNDS, Players
from entice.worlds.segments import Segments

_THIS_PROCESS = secrets.token_hex()

ColdStart = Literal["each_arm_once", "prior"]
Engine = Literal["auto", "generic"]

SWEPT = ("horizon", "seed")
"""Settings that may be a list in a sweep, with a study for each value."""
_SINGLE = ("arms", "adversary")
"""Fields of `UNIONS` that hold one entry; the others hold a list."""


class Study(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """An experiment: policies × drifts on one set of arms, with horizon and replications.

    Parameters
    ----------
    arms
        The reward distributions of the arms.
    policies
        The policies to compare. Each combination of a policy and a drift is a cell of the study.
    drifts
        The drifts under which each policy is run.
    horizon
        T, the number of rounds.
    replications
        Independent runs of each cell.
    seed
        Random seed. Drawn and recorded when the study is run, if omitted.
    checkpoints
        The rounds after which metrics are recorded: a number of evenly spaced rounds, or a list.
        The last round is always included. On a fast path, the numbers depend on the checkpoints,
        but their distribution does not.
    cold_start
        ``"each_arm_once"``: rounds 1 … K try each arm in turn, unpaid. ``"prior"``: an unrated
        arm displays `prior` and is paid for like any other.
    prior
        The value that an unrated arm displays: with ``cold_start="prior"``, or where ratings are
        late or missing.
    feedback_range
        Range onto which feedback is projected, as in the proof for ε-greedy. No projection by
        default, as in the paper's experiments.
    players
        Whether players accept offers, whether they rate, and when their ratings arrive. By default
        players always accept and rate, and ratings arrive immediately, as in the paper.
    adversary
        Manipulation of feedback: none, arms that cheat, or an attacker.
    probe
        Random additions of a known amount to some payments, from which the drift is estimated.
    engine
        ``"auto"``: the fast path of a policy wherever it is exact in distribution, else the
        generic kernel. ``"generic"``: the kernel, which plays every round, for all cells. All cells
        then see the same rewards, round by round (common random numbers), so differences between
        drifts are more precise.

    >>> import entice
    >>> study = entice.Study(
    ...     arms=entice.Bernoulli([0.6, 0.4]), policies=[entice.UCB()], horizon=100,
    ...     replications=10, seed=1)
    >>> entice.Study.from_toml(study.to_toml()) == study
    True
    """

    arms: Arms
    policies: Sequence[Policy]
    drifts: Sequence[Drift] = (NoDrift(),)
    horizon: int
    replications: int = 1000
    seed: int | None = None
    checkpoints: int | Sequence[int] = 200
    cold_start: ColdStart = "each_arm_once"
    prior: float = 0.0
    feedback_range: tuple[float, float] | None = None
    players: Players = Players()
    adversary: Adversary = NoAdversary()
    probe: Probe | None = None
    engine: Engine = "auto"

    def __post_init__(self) -> None:
        if not isinstance(self.arms, get_args(Arms)):
            rule = f"must be one of {kind_names('arms')}"
            raise InputError("arms", rule, given=self.arms, todo="Use entice.Gaussian([0.9, 0.8]).")
        self._set_each("policies")
        self._set_each("drifts")
        set_whole(self, "horizon", at_least=1)
        set_whole(self, "replications", at_least=1)
        if self.seed is not None:
            msgspec.structs.force_setattr(self, "seed", as_seed("Study: seed", self.seed))
        if self.cold_start not in get_args(ColdStart):
            rule = 'must be "each_arm_once" or "prior"'
            raise InputError("Study: cold_start", rule, given=self.cold_start)
        shown_once_rated = self.cold_start == "each_arm_once" and (
            not isinstance(self.players, Players) or self.players.rates_immediately
        )
        if set_number(self, "prior") != 0 and shown_once_rated:
            raise InputError(
                "Study: prior",
                'requires cold_start="prior", or ratings that are late or missing: '
                'with "each_arm_once" no unrated arm is displayed',
                given=self.prior,
            )
        arms = len(self.arms.true_means())
        if self.cold_start == "each_arm_once" and self.horizon < arms:
            raise InputError(
                "Study: horizon",
                f"must be at least the number of arms, {arms}, when each is tried once first",
                given=self.horizon,
                todo='Use more rounds, or cold_start="prior".',
            )
        self._set_checkpoints()
        self._set_feedback_range()
        self._check_world(arms)
        if self.engine not in get_args(Engine):
            rule = 'must be "auto" or "generic"'
            todo = '"auto" uses a fast path wherever there is one.'
            raise InputError("Study: engine", rule, given=self.engine, todo=todo)

    @classmethod
    def from_toml(cls, text: str) -> Study:
        """Read a study from TOML. Unknown and misspelt settings are errors."""
        try:
            table = tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            raise InputError("the study", f"must be TOML ({error})") from error
        return cls.from_table(table)

    @classmethod
    def from_table(cls, table: dict[str, Any]) -> Study:
        """Build a study from a parsed TOML table.

        A parameter of a policy or a drift may be a list of values, with an entry for each.
        """
        for field in SWEPT:
            if is_list(table.get(field)):
                raise InputError(
                    f"the study: {field}",
                    "must be one number for a single study",
                    given=table[field],
                    todo="Use `entice run` or entice.sweep_from_file for a list.",
                )
        expanded = {
            field: [one for i, entry in enumerate(given) for one in expand_sweep(field, i, entry)]
            for field, given in table.items()
            if field in ("policies", "drifts") and isinstance(given, list)
        }
        return cls._from_plain(table | expanded)

    @classmethod
    def from_file(cls, path: str | Path) -> Study:
        """Read a study from a TOML file. Custom functions may be in modules beside it."""
        path = Path(path)
        text = read_text("the study file", path)
        with importable(path.resolve().parent):
            return cls.from_toml(text)

    @classmethod
    def from_json(cls, text: str | bytes) -> Study:
        """Read a study from JSON."""
        try:
            plain = msgspec.json.decode(text)
        except (msgspec.DecodeError, UnicodeError) as error:
            raise InputError("the study", f"must be JSON ({error})") from error
        if isinstance(plain, dict) and "meddler" in plain:  # its name in results saved before 0.2
            adversary = plain.pop("meddler")
            plain["adversary"] = {"kind": "none"} if adversary == {"kind": "nobody"} else adversary
        return cls._from_plain(plain)

    def to_json(self) -> str:
        """Write the study as JSON, custom functions as "module:name"."""
        plain = msgspec.to_builtins(self, enc_hook=import_path)
        if plain["players"]["response"] is None:  # added later: older studies keep their key
            del plain["players"]["response"]
        return msgspec.json.encode(plain).decode()

    def to_toml(self) -> str:
        """Write the study as TOML, custom functions as "module:name"."""
        plain = msgspec.to_builtins(self, enc_hook=import_path)
        return tomli_w.dumps(without_none(plain))

    def key(self, *, anywhere: bool = False) -> str:
        """Return a hash of the spec and of the code that the study would run.

        Code without a fingerprint has a key that is valid in this process only. With `anywhere`,
        for keys that are compared between processes, such code is an error.
        """
        means, sampler = self.arms.true_means(), self.arms.sampler()
        code: list[Any] = [sampler.sample, sampler.draw, offer_function(self.arms)]
        numbers: list[Any] = [sampler.params, RUNAWAY]
        for policy in self.policies:
            fast, rules = self.fast_path(policy), policy.kernel(len(means))
            code += [fast.replicate] if fast else [replicate, *rules.functions]
            numbers += [rules.params, rules.memory, rules.counts_in_flight]
        for drift in self.drifts:
            kernel = drift.kernel()
            code += [kernel.function, kernel.apply_drift]
            numbers += [kernel.params]
        acceptance = self.players.acceptance.kernel()
        adversary = self.adversary.kernel(means)
        delays = self.players.delay_sampler()
        code += [acceptance.accept, delays.draw, adversary.manipulate]
        numbers += [acceptance.params, delays.params, adversary.params]
        if self.players.response is not None:
            response = self.players.response_kernel()
            code += [response.responds]
            numbers += [response.params]
        try:
            code_hash = fingerprint(*code)
        except NoFingerprint as reason:
            if anywhere:
                rule = f"has functions that cannot be compared between machines ({reason})"
                todo = "Remove Numba's cache=True: Entice caches compiled code itself."
                raise InputError("the study", rule, todo=todo) from None
            code_hash = _THIS_PROCESS
        made_of = f"{self.to_json()}\n{code_hash}\n{_plain(numbers)}"
        return hashlib.sha256(made_of.encode()).hexdigest()

    def runs_key(self) -> str:
        """Return the key of the study regardless of its number of replications."""
        return msgspec.structs.replace(self, replications=1).key()

    def with_seed(self) -> Study:
        """Return the study with a seed, drawn if it has none."""
        if self.seed is not None:
            return self
        return msgspec.structs.replace(self, seed=secrets.randbits(32))

    def checkpoint_rounds(self) -> npt.NDArray[np.int64]:
        """Return the rounds after which metrics are recorded; the last one is T."""
        if not isinstance(self.checkpoints, int):
            return np.array(sorted({*self.checkpoints, self.horizon}), dtype=np.int64)
        count = min(self.checkpoints, self.horizon)
        return np.arange(1, count + 1, dtype=np.int64) * self.horizon // count

    def engines(self) -> tuple[str, ...]:
        """Return the engine of each policy: ``"fast"`` or ``"generic"``.

        >>> import entice
        >>> study = entice.Study(
        ...     arms=entice.Gaussian([0.9, 0.5]), policies=[entice.UCB()], horizon=100)
        >>> study.engines()
        ('fast',)
        """
        return tuple("fast" if self.fast_path(p) else "generic" for p in self.policies)

    def fast_path(self, policy: Policy) -> FastPath | None:
        """Return the fast path of a policy in this study; None if the generic kernel runs it."""
        plain = self.players == Players() and self.adversary == NoAdversary() and self.probe is None
        simple = all(drift.kernel().is_function_of_payment for drift in self.drifts)
        if self.engine == "generic" or not (plain and simple):
            return None
        return fast_path(policy, self.arms, self.feedback_limits)

    def cells(self) -> Iterator[tuple[int, int, Policy, Drift]]:
        """Iterate over policies × drifts: (policy index, drift index, policy, drift)."""
        for p, policy in enumerate(self.policies):
            for d, drift in enumerate(self.drifts):
                yield p, d, policy, drift

    @property
    def metrics(self) -> tuple[str, ...]:
        """The metrics of each replication at each checkpoint."""
        return METRICS if self.players.response is None else METRICS + RESPONSE_METRICS

    @property
    def policy_labels(self) -> tuple[str, ...]:
        """The labels of the policies, made unique by parameters where necessary."""
        return unique_labels(self.policies)

    @property
    def drift_labels(self) -> tuple[str, ...]:
        """The labels of the drifts, made unique by parameters where necessary."""
        return unique_labels(self.drifts)

    @classmethod
    def _from_plain(cls, plain: Any) -> Study:
        """Build a study with the constructors, and so the checks, that Python code uses."""
        if not isinstance(plain, dict):
            raise InputError("the study", "must be a table of settings", given=plain)
        settings = dict(plain)
        for field, value in plain.items():
            if field in _SINGLE:
                settings[field] = parse_entry(field, field, value)
            elif field == "players":
                settings[field] = _players(value)
            elif field == "probe" and value is not None:
                settings[field] = build_spec(Probe, field, as_table(field, value))
            elif field in ("policies", "drifts"):
                entries = plain[field] if isinstance(plain[field], list) else [plain[field]]
                settings[field] = [
                    parse_entry(field, f"{field}[{i}]", entry) for i, entry in enumerate(entries)
                ]
        study: Study = build_spec(cls, "the study", settings)
        return study

    def _set_each(self, field: str) -> None:
        given = getattr(self, field)
        members = given if is_list(given) else [given]
        union = get_args(UNIONS[field])
        if not members:
            raise InputError(f"Study: {field}", "must have at least one entry", given=given)
        for i, member in enumerate(members):
            if not isinstance(member, union):
                raise InputError(
                    f"Study: {field}[{i}]", f"must be one of {kind_names(field)}", given=member
                )
        msgspec.structs.force_setattr(self, field, tuple(members))

    def _check_world(self, arms: int) -> None:
        for field, kinds in (("players", (Players,)), ("adversary", get_args(Adversary))):
            if not isinstance(getattr(self, field), kinds):
                rule = f"must be one of {', '.join(kind.__name__ for kind in kinds)}"
                raise InputError(f"Study: {field}", rule, given=getattr(self, field))
        if self.probe is not None and not isinstance(self.probe, Probe):
            raise InputError("Study: probe", "must be a Probe or None", given=self.probe)
        self._check_wait()
        for drift in self.drifts:
            if isinstance(drift, ArmDrift) and len(drift.slopes) != arms:
                rule = f"must have one slope for each of the {arms} arms"
                raise InputError("ArmDrift: slopes", rule, given=drift.slopes)
        self._check_adversary()
        low, high = np.clip(self.arms.support(), *self.feedback_limits)
        for i, policy in enumerate(self.policies):
            check_probe("Study: probe", self.probe, policy)
            if policy.unit_ratings and not 0 <= low <= high <= 1:
                rule = f"is {policy.label}, which needs ratings between 0 and 1"
                todo = "Rescale the arms, or project ratings with feedback_range=(0, 1)."
                given = (float(low), float(high))
                raise InputError(f"Study: policies[{i}]", rule, given=given, todo=todo)
            check_segments(f"Study: policies[{i}]", policy, self.arms)

    def _check_adversary(self) -> None:
        varying = isinstance(self.arms, Changing | Wandering | Segments)
        if self.adversary != NoAdversary() and varying:
            rule = (
                "must be NoAdversary if means change or differ by segment: others need one best arm"
            )
            raise InputError("Study: adversary", rule, given=self.adversary)
        self.adversary.kernel(self.arms.true_means())  # checks the target of an attacker

    def _check_wait(self) -> None:
        if self.players.longest_wait(self.horizon) > MAX_DELAY_ROUNDS + 1:
            raise InputError(
                "Players: rating_window",
                f"must be set, to at most {MAX_DELAY_ROUNDS:,}, where ratings may arrive later: "
                "a run needs memory for each round of delay",
                given=self.players.rating_window,
            )

    def _set_checkpoints(self) -> None:
        given: Any = self.checkpoints
        if not is_list(given):
            set_whole(self, "checkpoints", at_least=1, at_most=1_000_000)
            return
        rounds = tuple(as_whole_number(f"Study: checkpoints[{i}]", r) for i, r in enumerate(given))
        if not rounds or min(rounds) < 1 or max(rounds) > self.horizon:
            rule = f"must be a number, or a list of rounds from 1 to the horizon, {self.horizon}"
            raise InputError("Study: checkpoints", rule, given=given)
        msgspec.structs.force_setattr(self, "checkpoints", rounds)

    def _set_feedback_range(self) -> None:
        given: Any = self.feedback_range
        if given is None:
            return
        if not is_list(given) or len(given) != 2:
            rule = "must be a pair (lowest, highest) or None"
            raise InputError("Study: feedback_range", rule, given=given)
        low, high = (as_number(f"Study: feedback_range[{i}]", v) for i, v in enumerate(given))
        if not low < high:
            rule = "must have its lowest value below its highest"
            raise InputError("Study: feedback_range", rule, given=given)
        msgspec.structs.force_setattr(self, "feedback_range", (low, high))

    @property
    def feedback_limits(self) -> tuple[float, float]:
        """The lowest and the highest feedback; infinite without projection."""
        return self.feedback_range or (-math.inf, math.inf)


def _players(given: Any) -> Any:
    settings = as_table("players", given)
    if "acceptance" in settings:
        where = "players: acceptance"
        settings["acceptance"] = parse_entry("acceptance", where, settings["acceptance"])
    if isinstance(settings.get("delay"), dict):
        settings["delay"] = parse_entry("delay", "players: delay", settings["delay"])
    if settings.get("response") is not None:
        where = "players: response"
        settings["response"] = parse_entry("response", where, settings["response"])
    return build_spec(Players, "players", settings)


def _plain(numbers: Any) -> Any:
    """Convert arrays to lists, at any depth."""
    if isinstance(numbers, np.ndarray):
        return numbers.tolist()
    return [_plain(n) for n in numbers] if isinstance(numbers, (list, tuple)) else numbers
