"""The rules, state, events, offers and commands of a campaign, without database or HTTP."""
