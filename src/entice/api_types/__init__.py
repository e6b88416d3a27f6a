"""Types of the HTTP API's responses: what the service encodes and `entice.client` decodes.

Amounts of money are whole numbers of the currency's minor unit (cents, where it has two decimals).
Ratings, averages and payments are in stars. Times are in UTC.

This package depends on msgspec only, so that the client does not import the web stack. The
docstring of a field is its description in `/openapi.json`.
"""

from entice.api_types.campaigns import (
    MAX_PLANNED_POINTS,
    AlertKind,
    AlertView,
    ArmView,
    CampaignPlan,
    CampaignPlanView,
    CampaignStatus,
    CampaignView,
    CampaignWithAlerts,
    PlanStatus,
    PlanStatusView,
    SegmentArmView,
    SegmentView,
    SettingChange,
    SettingsHistory,
    SpendingView,
)
from entice.api_types.estimates import (
    AcceptanceView,
    ArmDriftView,
    DriftBoundsView,
    DriftView,
    EffectGroupView,
    EffectView,
    PricePoint,
    SplitView,
)
from entice.api_types.events import (
    CreatedWebhook,
    EventPage,
    EventView,
    WebhookPayload,
    WebhookView,
)
from entice.api_types.keys import (
    ApiKeyView,
    CreatedApiKey,
)
from entice.api_types.offers import (
    ErasedCampaign,
    ErasureView,
    OfferHistory,
    OfferPage,
    OfferReason,
    OfferState,
    OfferView,
    PlayerCampaign,
    PlayerView,
    PriceCalculation,
    PriceStep,
    ProbeSide,
)

__all__ = [
    "MAX_PLANNED_POINTS",
    "AcceptanceView",
    "AlertKind",
    "AlertView",
    "ApiKeyView",
    "ArmDriftView",
    "ArmView",
    "CampaignPlan",
    "CampaignPlanView",
    "CampaignStatus",
    "CampaignView",
    "CampaignWithAlerts",
    "CreatedApiKey",
    "CreatedWebhook",
    "DriftBoundsView",
    "DriftView",
    "EffectGroupView",
    "EffectView",
    "ErasedCampaign",
    "ErasureView",
    "EventPage",
    "EventView",
    "OfferHistory",
    "OfferPage",
    "OfferReason",
    "OfferState",
    "OfferView",
    "PlanStatus",
    "PlanStatusView",
    "PlayerCampaign",
    "PlayerView",
    "PriceCalculation",
    "PricePoint",
    "PriceStep",
    "ProbeSide",
    "SegmentArmView",
    "SegmentView",
    "SettingChange",
    "SettingsHistory",
    "SpendingView",
    "SplitView",
    "WebhookPayload",
    "WebhookView",
]
