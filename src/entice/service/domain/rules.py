"""The rules of a campaign: each turns a request into an event and applies it to the state.

The service and `entice verify` run the same rules. The service stores the events. `entice verify`
reads them, applies the rules again, and compares the resulting events with the stored ones.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import entice
from entice.errors import InputError
from entice.model import in_flight
from entice.model.campaign_step import EXPECTED_RATINGS
from entice.policies.propensity import check_overlap
from entice.service.domain import events as log
from entice.service.domain.campaign import RULES, Campaign
from entice.service.domain.changes import check_changes, current_setting
from entice.service.domain.errors import conflict, invalid, not_found
from entice.service.domain.events import Event
from entice.service.domain.holdout import HOLDOUT
from entice.service.domain.offer import (
    ACCEPTED,
    DECLINED,
    EXPIRED,
    NEVER,
    OFFERED,
    RATED,
    REVERSED,
    SHADOW,
    STATES,
    UNRATED,
    VOIDED,
    OfferRecord,
    OfferRepository,
)
from entice.service.domain.segment_state import segment_index
from entice.service.domain.spec import MAX_ARMS, check_arm_ids

MAX_EVENTS_PER_OFFER = 100
"""The number of events of one offer after which its rating can no longer be changed."""
MAX_EVENTS_TO_RELEARN = 20_000
"""The longest log from which a policy relearns all ratings. This takes tenths of a second."""
RELEARNED_AT_ONCE = 50
"""The number of ratings that a policy relearns without a pause."""
SECOND = 1_000_000
"""One second in microseconds."""


class CampaignRules:
    """The rules, applied to one campaign."""

    def __init__(self, campaign: Campaign, offers: OfferRepository) -> None:
        self.campaign = campaign
        self.offers = offers
        self.relearn_later = False
        """Whether the caller calls `relearn` after a rating has been changed or removed."""
        self._must_relearn = False

    def _append(self, event: Event) -> None:
        """Append an event to the log, and advance the state's number, time and hash."""
        state = self.campaign.state
        body = log.encode(event)
        state.seq, state.at = event.seq, event.at
        state.head = log.chain_hash(state.head, body)
        self.offers.append_event(event, body)

    def _header(self, at: int) -> tuple[str, int, int]:
        """Return the first fields of the next event: campaign, number and time."""
        state = self.campaign.state
        return state.campaign, state.seq + 1, max(at, state.at)

    # Settings and arms

    def create(
        self,
        at: int,
        version: str = entice.__version__,
        by: str | None = None,
        plan: dict[str, Any] | None = None,
    ) -> None:
        """Append the first event, which records the version of Entice and the plan, if any."""
        state = self.campaign.state
        header = self._header(at)
        self._append(log.Created(*header, state.spec, version, state.rules, by=by, plan=plan))

    def upgrade(self, at: int, rules: int = RULES) -> None:
        """Switch to a later version of the rules, if the campaign's is older."""
        if self.campaign.state.rules >= rules:
            return
        if rules > RULES:
            raise ValueError(f"rules of version {rules} are newer than this version of Entice")
        name, seq, at = self._header(at)
        self._append(log.Upgraded(name, seq, at, rules))
        offers = [offer for offer in self.offers.in_flight_offers() if self._is_in_flight(offer)]
        self.campaign.upgrade(at, rules, offers)

    def change(self, at: int, changes: dict[str, Any], by: str | None = None) -> None:
        """Change settings. A budget below the sum of committed and reserved money is rejected."""
        state = self.campaign.state
        changes = {k: v for k, v in changes.items() if v != current_setting(state, k)}
        if not changes:
            return
        self._check_open()
        check_changes(state, changes)
        self._append(log.Changed(*self._header(at), changes, by=by))
        state.version += 1
        state.budget = changes.get("budget", state.budget)
        state.status = changes.get("status", state.status)
        state.spec = {k: v for k, v in {**state.spec, **changes}.items() if v is not None}
        self.campaign.reconfigure()
        if state.status == "closed":
            for offer in self.offers.open():
                self._void(at, offer)

    def _check_open(self) -> None:
        if self.campaign.state.status == "closed":
            raise conflict(
                "The campaign is closed. A closed campaign cannot be changed or reopened.",
                state="closed",
            )

    def add_arms(self, at: int, arms: tuple[str, ...], by: str | None = None) -> None:
        """Add arms. Arms that the campaign already has are ignored."""
        campaign, state = self.campaign, self.campaign.state
        self._check_open()
        try:
            arms = check_arm_ids("arms", arms, 1)
            together, spec = len({*state.arms, *arms}), campaign.spec
            check_overlap("overlap", spec.overlap, spec.policy, together)
        except InputError as error:
            raise invalid(str(error)) from error
        arms = tuple(arm for arm in arms if arm not in campaign.arms)
        if not arms:
            return
        if len(state.arms) + len(arms) > MAX_ARMS:
            raise invalid(
                f"a campaign can have at most {MAX_ARMS} arms; it has {len(state.arms)}, and "
                f"{len(arms)} more were given."
            )
        self._append(log.ArmsAdded(*self._header(at), arms, by=by))
        more = len(arms)
        state.arms += arms
        state.retired += [False] * more
        for counts in (state.pulls, state.totals, state.in_flight):
            counts += [0] * more
        if state.segments is not None:
            state.segments.add_arms(more)
        if state.rules >= EXPECTED_RATINGS:
            state.offered += [0] * more
        campaign.reconfigure()

    def retire(self, at: int, arm: str, retired: bool, by: str | None = None) -> None:
        """Retire an arm, or reactivate it."""
        state, index = self.campaign.state, self._arm_index(arm)
        if state.retired[index] == retired:
            return
        self._check_open()
        if retired and state.retired.count(False) == 1:
            raise conflict(f"{arm!r} can't be retired: it is the last active arm of the campaign.")
        self._append(log.ArmRetired(*self._header(at), arm, retired, by=by))
        self.campaign.retire(index, retired)

    def erase_player(self, at: int, player: bytes, by: str | None = None) -> None:
        """Record that a player's hash no longer belongs to an id; withdraw the open offer."""
        self._append(log.PlayerErased(*self._header(at), player.hex(), by=by))
        if (offer := self.offers.live(player)) is not None:
            self._void(at, offer)

    # Offers

    def offer(
        self,
        at: int,
        player: bytes,
        eligible: tuple[str, ...] | None,
        displayed: dict[str, float] | None,
        segment: str | None = None,
    ) -> OfferRecord:
        """Decide which arm and payment to offer to a player, and reserve the amount."""
        campaign, state = self.campaign, self.campaign.state
        capped = campaign.spec.cap_per_player is not None
        limit = campaign.limit(self.offers.spent_on(player) if capped else 0)
        name, seq, at = self._header(at)
        group = campaign.group_of(player)
        is_new = group is not None and self.offers.is_new(player)
        segment_number = segment_index(campaign.spec.segments, segment)
        decision = campaign.decide(at, limit, eligible, displayed, group == HOLDOUT, segment_number)
        shadow = state.status == "shadow"
        n, expires = state.decisions + 1, at + campaign.spec.offer_expires_after * SECOND
        reason, amount, shown = decision.reason, decision.amount, campaign.shown_stars()
        if not math.isfinite(decision.payment + decision.propensity + sum(shown)):
            raise FloatingPointError("a decision contains a number that is not finite")
        self._append(
            log.Offered(
                name, seq, at, n, state.version, player.hex(),
                state.arms[decision.arm], state.arms[decision.greedy],
                decision.payment, amount, reason, decision.propensity, shown, expires,
                limit.amount, eligible, displayed, decision.estimated,
                limit.by if decision.limited else None,
                decision.probe, decision.probe_amount, shadow, decision.gap, *decision.overlap,
                group=group, segment=segment, learned_price=decision.price.learned,
                price_propensity=decision.price.propensity,
                price_explored=decision.price.explored,
            )
        )  # fmt: skip
        offer = OfferRecord(
            n, player, OFFERED, expires, amount, decision.arm, decision.greedy, decision.payment,
            amount, None, reason, decision.propensity, decision.probe,
            decision.probe_amount, at, expires, None, [seq], segment=segment_number,
        )  # fmt: skip
        state.decisions = n
        if shadow:
            offer.state, offer.due, offer.cost = SHADOW, NEVER, 0
        else:
            state.reserved += amount
            if self._is_in_flight(offer):
                campaign.begin_pull(n, at, decision.arm, segment_number)
        if (counts := campaign.group_counts(offer)) is not None:
            counts.visitors += 1
            counts.players += is_new
        self.offers.put(offer)
        return offer

    def check_request(
        self,
        eligible: Sequence[str] | None,
        displayed: dict[str, float] | None,
        segment: str | None = None,
    ) -> None:
        """Reject a request with unknown arms or segments, or ratings that are out of range."""
        state = self.campaign.state
        if state.status == "closed":
            raise conflict("The campaign is closed: it makes no more offers.", state="closed")
        segment_index(self.campaign.spec.segments, segment)
        if eligible is not None:
            retired = [state.retired[self._arm_in_request("eligible", arm)] for arm in eligible]
            if all(retired):  # also true of an empty list
                raise invalid(
                    "eligible must name at least one arm that is not retired; "
                    f"got {', '.join(eligible) or 'none'}."
                )
        for arm, stars in (displayed or {}).items():
            self._arm_in_request("displayed", arm)
            low, high = self.campaign.spec.lowest_rating, self.campaign.spec.highest_rating
            if not low <= stars <= high:
                raise invalid(f"displayed[{arm}] must be from {low} to {high} stars; got {stars}.")

    def _arm_in_request(self, where: str, arm: str) -> int:
        index = self.campaign.arms.get(arm)
        if index is None:
            raise invalid(f"{where} must name arms of the campaign; there is no arm {arm!r}.")
        return index

    def _arm_index(self, arm: str) -> int:
        index = self.campaign.arms.get(arm)
        if index is None:
            raise not_found("arm", arm)
        return index

    def accept(self, at: int, offer: OfferRecord, paid: int | None) -> None:
        """Accept an offer: commit its amount, or `paid` if that is less."""
        if offer.paid is not None and offer.state != REVERSED and paid in (None, offer.paid):
            return
        if offer.state in (ACCEPTED, RATED, UNRATED):
            name = f"{self.campaign.state.campaign}.{offer.n}"
            raise conflict(
                f"Offer {name} was already accepted for {offer.paid}; got {paid}.",
                state=STATES[offer.state],
            )
        if offer.state == SHADOW:
            self._check_shadow(at, offer, "accepted")
        elif offer.state != OFFERED or offer.due <= at:
            raise self._wrong_state(offer, "accepted")
        offered = 0 if offer.shadow else offer.amount
        if paid is None:
            paid = offered
        if not 0 <= paid <= offered:
            amount = self.campaign.state.money.format(offered)
            raise invalid(f"amount must be from 0 to {offered} ({amount}), as offered; got {paid}.")
        name, seq, at = self._header(at)
        due = at + self.campaign.spec.rating_window * SECOND
        self._append(log.Accepted(name, seq, at, offer.n, paid, due))
        state = self.campaign.state
        state.reserved -= offered
        state.committed += paid
        offer.paid = offer.cost = paid
        offer.answered_in_shadow = offer.shadow
        if (counts := self.campaign.group_counts(offer)) is not None:
            counts.paid += paid
        if self.campaign.pricing is not None:
            self.campaign.pricing.record_answer(offer, True)
        self._set_state(offer, ACCEPTED, due)

    def decline(self, at: int, offer: OfferRecord) -> None:
        """Decline an offer: release its reserved amount."""
        if offer.state == DECLINED:
            return
        if offer.state == SHADOW:
            self._check_shadow(at, offer, "declined")
            self._append(log.Declined(*self._header(at), offer.n))
            offer.answered_in_shadow = True
            self._set_state(offer, DECLINED)
            return
        if offer.state != OFFERED:
            raise self._wrong_state(offer, "declined")
        self._append(log.Declined(*self._header(at), offer.n))
        if self.campaign.pricing is not None:
            self.campaign.pricing.record_answer(offer, False)
        counts = self.campaign.group_counts(offer)
        if counts is not None and counts.declined is not None:
            counts.declined += 1
        self._release(offer, DECLINED)

    def expire(self, at: int, offer: OfferRecord) -> None:
        """Expire an open offer, or stop waiting for the rating of an accepted one."""
        assert offer.due <= at, "the offer is not due yet"
        if offer.state == OFFERED:
            self._append(log.Expired(*self._header(at), offer.n))
            self._release(offer, EXPIRED)
        elif offer.state == ACCEPTED:
            self._append(log.Unrated(*self._header(at), offer.n))
            self._end_pull(offer, in_flight.UNRATED)
            self._set_state(offer, UNRATED)

    def rate(self, at: int, offer: OfferRecord, rating: int) -> None:
        """Record the rating of an accepted offer, or change it."""
        if offer.state == RATED and offer.rating == rating:
            return
        if offer.state == UNRATED and not self.campaign.spec.late_ratings:
            raise conflict(
                "The rating window has ended, and this campaign does not accept late ratings.",
                state=STATES[offer.state],
            )
        if offer.state not in (ACCEPTED, UNRATED, RATED):
            first = " Accept it first." if offer.state in (OFFERED, SHADOW) else ""
            raise self._wrong_state(offer, "rated", first)
        self._check_rating(rating)
        if len(offer.events) >= MAX_EVENTS_PER_OFFER:
            raise conflict(
                f"The rating can't be changed: the offer has {MAX_EVENTS_PER_OFFER} events.",
                state=STATES[offer.state],
            )
        campaign, state, arm = self.campaign, self.campaign.state, offer.arm
        before, name = offer.rating, state.arms[arm]
        counts, feeds = campaign.group_counts(offer), campaign.feeds_averages(offer.player)
        if before is not None:
            self._append(log.Revised(*self._header(at), offer.n, name, rating, before, feeds))
            if feeds:
                campaign.count_rating(arm, offer.segment, before, -1)
            if counts is not None:
                counts.remove_rating(before)
        else:
            paid, probe = campaign.stars_paid(offer), offer.probe
            if offer.paid != offer.amount or offer.shadow:
                probe = None  # the coin did not determine the payment
            amount = offer.probe_amount if probe is not None else None
            self._append(
                log.Rated(*self._header(at), offer.n, name, rating, paid, probe, amount, feeds)
            )
            if offer.state == ACCEPTED:
                self._end_pull(offer, in_flight.RATED)
        offer.rating = rating
        self._set_state(offer, RATED)
        if counts is not None:
            counts.add_rating(rating)
        if feeds:
            campaign.count_rating(arm, offer.segment, rating)
            campaign.update_arm(arm, before is None, campaign.stars_paid(offer), rating)
        if before is not None:
            self._relearn(offer)

    def reverse(self, at: int, offer: OfferRecord) -> None:
        """Reverse a sale: release its payment and remove its rating from the averages."""
        if offer.state == REVERSED:
            return
        if offer.state not in (ACCEPTED, RATED, UNRATED) or offer.paid is None:
            raise self._wrong_state(offer, "reversed")
        campaign, state, arm = self.campaign, self.campaign.state, offer.arm
        self._append(log.Reversed(*self._header(at), offer.n, offer.paid))
        state.committed -= offer.paid
        if offer.state == ACCEPTED:
            self._end_pull(offer, in_flight.WITHDRAWN)
        rated, offer.cost = offer.rating, 0
        if (counts := campaign.group_counts(offer)) is not None:
            counts.paid -= offer.paid
            if rated is not None:
                counts.remove_rating(rated)
        self._set_state(offer, REVERSED)
        if rated is not None and campaign.feeds_averages(offer.player):
            campaign.remove_rating(arm, offer.segment, rated)
            self._relearn(offer)

    def organic(self, at: int, arm: str, rating: int, segment: str | None = None) -> None:
        """Record the rating of someone who received no offer."""
        campaign = self.campaign
        index, segment_number = self.check_organic(arm, rating, segment)
        self._append(log.OrganicRated(*self._header(at), arm, rating, segment))
        campaign.count_rating(index, segment_number, rating)
        campaign.update_arm(index, True, 0.0, rating)

    def check_organic(
        self, arm: str, rating: int, segment: str | None = None
    ) -> tuple[int, int | None]:
        """Return the numbers of arm and segment; reject unknown ones, and ratings out of range."""
        index = self._arm_in_request("arm", arm)
        self._check_rating(rating)
        return index, segment_index(self.campaign.spec.segments, segment)

    def _check_rating(self, rating: int) -> None:
        low, high = self.campaign.spec.lowest_rating, self.campaign.spec.highest_rating
        if not low <= rating <= high:
            raise invalid(f"rating must be a whole number from {low} to {high}; got {rating}.")

    def _check_shadow(self, at: int, offer: OfferRecord, action: str) -> None:
        """Reject the answer to a shadow offer that has expired or whose campaign is closed."""
        ended = "has expired" if offer.expires <= at else "was voided when the campaign closed"
        if offer.expires <= at or self.campaign.state.status == "closed":
            name = f"{self.campaign.state.campaign}.{offer.n}"
            raise conflict(f"Offer {name} can't be {action}: it {ended}.", state="shadow")

    def _wrong_state(self, offer: OfferRecord, action: str, todo: str = "") -> Exception:
        state = STATES[offer.state]
        name = f"{self.campaign.state.campaign}.{offer.n}"
        return conflict(f"Offer {name} can't be {action}: it is {state}.{todo}", state=state)

    def _void(self, at: int, offer: OfferRecord) -> None:
        self._append(log.Voided(*self._header(at), offer.n))
        self._release(offer, VOIDED)

    def _release(self, offer: OfferRecord, new_state: int) -> None:
        state = self.campaign.state
        state.reserved -= offer.amount
        self._end_pull(offer, in_flight.WITHDRAWN)
        offer.cost = 0
        self._set_state(offer, new_state)

    def _end_pull(self, offer: OfferRecord, outcome: int) -> None:
        """Remove an offer from the pulls in flight, at the time of the last event."""
        if self._is_in_flight(offer):
            at = self.campaign.state.at
            self.campaign.end_pull(offer.n, at, offer.arm, outcome, offer.segment)

    def _is_in_flight(self, offer: OfferRecord) -> bool:
        """Return whether an open or accepted offer counts in flight."""
        return not offer.shadow and self.campaign.feeds_averages(offer.player)

    def _set_state(self, offer: OfferRecord, state: int, due: int = NEVER) -> None:
        offer.state, offer.due = state, due
        offer.events.append(self.campaign.state.seq)
        self.offers.put(offer)

    def relearns(self, offer: OfferRecord) -> bool:
        """Return whether the policy relearns all ratings if that of an offer changes.

        Policies that learn from averages alone do not need this. If the log is long, a single
        rating hardly matters, and replaying all of them would delay the campaign's other requests:
        then only the averages change. So they do if the policy's memory also depends on its past
        decisions.
        """
        campaign = self.campaign
        learns = campaign.learns_from_ratings and campaign.kernel.relearns
        learns = learns and campaign.feeds_averages(offer.player)
        return learns and offer.rating is not None and campaign.state.seq <= MAX_EVENTS_TO_RELEARN

    def _relearn(self, offer: OfferRecord) -> None:
        self._must_relearn = self.relearns(offer)
        if not self.relearn_later:
            for _ in self.relearn():
                pass

    def relearn(self) -> Iterator[None]:
        """Let the policy relearn all ratings, in order, if one has changed; pause now and then."""
        if not self._must_relearn:
            return
        self._must_relearn = False
        campaign = self.campaign
        campaign.reset_memory()
        for i, (arm, paid, rating) in enumerate(self.offers.counted_ratings()):
            campaign.update_arm(campaign.arms[arm], True, paid, rating)
            if i % RELEARNED_AT_ONCE == 0:
                yield
