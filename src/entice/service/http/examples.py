"""Examples in the OpenAPI document, all of one small campaign."""

from __future__ import annotations

from typing import Any

CAMPAIGN_ID = "c_9f2c1ab34d5e6f70"

SPEC: dict[str, Any] = {
    "name": "Teas of the month",
    "arms": ["oolong", "sencha", "matcha"],
    "policy": {"kind": "ucb"},
    "budget": 50_000,
    "currency": "EUR",
    "price_of_a_star": 200,
    "cap_per_offer": 300,
}

CAMPAIGN: dict[str, Any] = {
    "id": CAMPAIGN_ID,
    "name": "Teas of the month",
    "status": "live",
    "currency": "EUR",
    "currency_digits": 2,
    "budget": 50_000,
    "reserved": 50,
    "committed": 1_240,
    "free": 48_710,
    "paced": None,
    "decisions": 312,
    "ratings": 97,
    "in_flight": 208,
    "share_who_rate": 0.31,
    "events": 655,
    "version": 1,
    "created_at": "2026-11-16T07:00:00Z",
    "changed_at": "2026-11-18T16:20:11.123456Z",
    "spec": {**SPEC, "currency_digits": 2, "seed": 7, "status": "live"},
    "segments": [],
    "retired": 0,
}

CAMPAIGN_WITH_ALERTS: dict[str, Any] = {
    **CAMPAIGN,
    "alerts": [
        {
            "kind": "items_without_ratings",
            "message": "matcha has no rating, although the offers so far should have brought at "
            "least three.",
            "todo": "Check that visitors can rate these items, or retire them.",
        }
    ],
    "plan_status": {
        "status": "on_plan",
        "message": "€12.40 is committed after 312 visitors; the plan expects €12.11 to €61.38.",
        "todo": "Nothing needs to be done.",
        "shadow_visitors": 0,
    },
}

KEY: dict[str, Any] = {
    "id": "5f1c09ab",
    "name": "Shop",
    "roles": ["decide", "feedback"],
    "campaign": CAMPAIGN_ID,
    "created_at": "2026-11-16T07:00:00Z",
    "revoked_at": None,
    "current": False,
    "altered": False,
}

ARM: dict[str, Any] = {
    "id": "oolong",
    "retired": False,
    "rated": 41,
    "average": 4.317,
    "low": 3.681,
    "high": 4.679,
    "shown": 4.317,
    "in_flight": 64,
    "expected": 1.6,
    "offered": 131,
    "overdue_first_rating": False,
    "greedy": False,
}

SPENDING: dict[str, Any] = {
    "campaign": CAMPAIGN_ID,
    "by": "offer",
    "currency": "EUR",
    "currency_digits": 2,
    "through": 655,
    "events": 655,
    "at": [
        "2026-11-16T07:00:00Z",
        "2026-11-17T11:02:00.500000Z",
        "2026-11-18T16:20:11.123456Z",
    ],
    "offers": [0, 160, 312],
    "committed": [0, 980, 1_240],
    "reserved": [0, 120, 50],
    "budget": [50_000, 50_000, 50_000],
    "paced": [None, None, None],
}

PLAN: dict[str, Any] = {
    "policy": "UCB",
    "visitors_a_day": 300,
    "days": 60,
    "drift": [0.0, 1.0],
    "replications": 400,
    "seed": 7,
    "visitors": [300, 9_000, 18_000],
    "low": [1_200, 9_800, 12_100],
    "typical": [2_900, 17_400, 21_000],
    "high": [6_100, 33_000, 41_700],
}
SETTINGS_HISTORY: dict[str, Any] = {
    "campaign": CAMPAIGN_ID,
    "currency": "EUR",
    "currency_digits": 2,
    "through": 655,
    "events": 655,
    "changes": [
        {
            "seq": 412,
            "at": "2026-11-17T11:02:00.500000Z",
            "by": "0123abcd",
            "by_name": "Ann",
            "setting": "budget",
            "arm": None,
            "before": 50_000,
            "after": 75_000,
        }
    ],
}


def offer(state: str) -> dict[str, Any]:
    """Return an offer in some state."""
    taken = state in ("accepted", "rated", "reversed")
    return {
        "id": f"{CAMPAIGN_ID}.312",
        "campaign": CAMPAIGN_ID,
        "decision": 312,
        "state": state,
        "arm": "oolong",
        "greedy_arm": "sencha",
        "amount": 50,
        "currency": "EUR",
        "currency_digits": 2,
        "payment": 0.25,
        "would_pay": None,
        "reason": "explore",
        "propensity": 1.0,
        "probe": None,
        "paid": 50 if taken else None,
        "rating": 5 if state == "rated" else None,
        "offered_at": "2026-11-18T16:20:11.123456Z",
        "expires_at": "2026-11-18T16:35:11.123456Z",
        "disclosure": "You get a discount for trying this tea, whatever you think of it.",
        "segment": None,
    }


OFFER = offer("offered")

EVENT: dict[str, Any] = {
    "seq": 656,
    "at": "2026-11-18T16:21:40.000001Z",
    "hash": "5d0c" * 16,
    "body": {
        "kind": "accepted",
        "campaign": CAMPAIGN_ID,
        "seq": 656,
        "at": 1795018900000001,
        "n": 312,
        "paid": 50,
        "due": 1797610900000001,
    },
    "why": None,
}

HISTORY: dict[str, Any] = {
    "offer": offer("accepted"),
    "why": "To learn more about oolong, which shows 0.25 stars less than sencha. The payment "
    "covers the gap.",
    "arithmetic": {
        "shown": {"oolong": 4.25, "sencha": 4.5, "matcha": 3.9},
        "own_choice_shows": 4.5,
        "arm_shows": 4.25,
        "payment_in_stars": 0.25,
        "probe_added": None,
        "price_of_a_star": 200,
        "margin": 0,
        "amount": 50,
        "limit": 300,
        "limited_by": None,
        "steps": [
            {
                "sign": "",
                "label": "sencha shows",
                "stars": 4.5,
                "amount": None,
                "note": "the visitor's own choice",
                "level": "term",
            },
        ],
    },
    "history": [{**EVENT["body"], "at": EVENT["at"], "hash": EVENT["hash"]}],
}

DRIFT: dict[str, Any] = {
    "probed": True,
    "probes": 412,
    "slope": 0.62,
    "low": 0.31,
    "high": 0.93,
    "level": 0.95,
    "note": "From a randomised probe.",
    "arms": [{"id": "oolong", "paid": 0.12, "corrected": 4.243}],
    "bounds": {
        "low": -0.18,
        "high": 1.27,
        "heads": 684,
        "heads_rated": 214,
        "tails": 671,
        "tails_rated": 203,
        "p_value": 0.680,
        "differs": False,
    },
}

EFFECT: dict[str, Any] = {
    "campaign": CAMPAIGN_ID,
    "currency": "EUR",
    "currency_digits": 2,
    "holdout_share": 0.1,
    "paid": {
        "visitors": 90_000,
        "players": 71_000,
        "rated": 18_000,
        "rating_sum": 77_400,
        "rating_squares": 347_000,
        "paid": 1_260_000,
        "rating": 4.3,
        "share_rated": 0.214,
        "payment": 14.0,
        "declined": 5_850,
    },
    "holdout": {
        "visitors": 10_050,
        "players": 7_931,
        "rated": 2_010,
        "rating_sum": 8_241,
        "rating_squares": 35_800,
        "paid": 0,
        "rating": 4.1,
        "share_rated": 0.2,
        "payment": 0.0,
        "declined": 0,
    },
    "difference": 0.2,
    "low": 0.115,
    "high": 0.285,
    "confidence": 0.95,
    "method": "empirical Bernstein confidence sequence",
    "cost_per_star": 70.0,
    "cost_low": 49.1,
    "cost_high": 121.7,
    "cost_note": "",
    "split": {"intended": 0.1, "observed": 0.1005, "p_value": 1.0, "broken": False},
    "verdict": "better",
    "sentence": "Ratings are higher with the campaign: 4.30 against 4.10 stars in the holdout. The "
    "true difference is between +0.12 and +0.28 stars (at 95 % confidence, at every look). A star "
    "more per visitor costs about €0.70. Part of it can be the effect of payments on ratings, "
    "rather than of better choices.",
}

ACCEPTANCE: dict[str, Any] = {
    "campaign": CAMPAIGN_ID,
    "currency": "EUR",
    "currency_digits": 2,
    "acceptance": 0.8,
    "explore": 0.05,
    "learned_price": 0.2,
    "learned_amount": 40,
    "min_answers": 10,
    "prices": [
        {"price": 0.126, "amount": 26, "answers": 210, "accepted": 132, "estimate": 0.629},
        {"price": 0.16, "amount": 32, "answers": 340, "accepted": 259, "estimate": 0.762},
        {"price": 0.2, "amount": 40, "answers": 1_480, "accepted": 1_221, "estimate": 0.825},
    ],
    "sentence": "€0.40 (0.2 stars) is the cheapest price that 80 % of the visitors accept, by "
    "2,030 answers. Larger gaps are paid this price, smaller ones the gap.",
}

WEBHOOK: dict[str, Any] = {
    "id": "w_51c09be7a2d3f846",
    "campaign": CAMPAIGN_ID,
    "url": "https://warehouse.example/entice",
    "created_at": "2026-11-17T09:00:00Z",
    "paused": False,
    "delivered": 655,
    "lag": 0,
    "failures": 0,
    "last_success_at": "2026-11-18T16:20:11.481230Z",
    "last_error": "status 502",
    "last_error_at": "2026-11-17T22:01:40.000512Z",
    "next_attempt_at": None,
}
