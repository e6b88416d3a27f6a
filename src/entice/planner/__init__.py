"""Forecasts of a campaign before its launch: costs, and how soon the best item is found.

- `spec`: the plan; `plan_policies`: the policies that it compares; `belief`: the distributions of
  the items' true ratings
- `runner`: runs each policy in worlds drawn from the belief; `campaign_loop`: the compiled loop;
  `visitors`: the simulated visitors
- `outcome`: the outcome of one run; `forecast`: all runs
- `summary_text`, `forecast_table`, `figure`, `report`, `assumptions`, `formatting`: the output
"""
