"""Which policies can decide by the averages and counts of a segment of visitors."""

from __future__ import annotations

from entice.errors import InputError
from entice.policies.custom import CustomPolicy
from entice.policies.policy import PolicySpec, no_update


def check_segments(where: str, policy: PolicySpec, arms: int, todo: str) -> None:
    """Reject a policy that cannot decide by the averages and counts of a known segment.

    The memory of `CustomPolicy` is the user's: it is the same for all segments.
    """
    remembers = policy.kernel(arms).update is not no_update  # type: ignore[attr-defined]
    if remembers and not isinstance(policy, CustomPolicy):
        rule = f"is {policy.label}, which remembers ratings that may be from other segments"
        todo = f"Use UCB or another policy of counts and averages, or {todo}."
        raise InputError(where, rule, todo=todo)
