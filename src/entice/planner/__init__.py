"""Before launch: what exploring would cost, and what it would find.

`spec.py` says what is planned, `belief.py` what is believed of the items, `campaign.py` runs the
worlds that are believed in, `unpaid.py` what follows once the money is gone; `outcome.py` looks at
one run, `forecast.py` at all. What a person reads is in `sentence.py`, `table.py`, `figure.py` and
`report.py`.
"""
