"""Databases, the group-commit writer, and queries.

How an offer gets into the database
-----------------------------------

Ten files, from the HTTP route to the row in SQLite:

1. `service/http/offers.py`: the route decodes the request into a *command*, `MakeOffer`, with a
   keyed hash of the player's id.
2. `service/http/requests.py`: the *idempotency key* of the request, if it has one, is passed to
   the writer with the command.
3. `service/storage/writer.py`: the *writer* thread takes waiting commands, of each campaign in turn
   (`fair_queue.py`), and executes them in one *transaction* (`group_commit.py`); long ones in
   slices (`slices.py`). A command whose idempotency key is known gets the stored response. Clients
   get their responses after the commit. `stored_hashes.py` adds each player's salt to the hash.
4. `service/domain/commands.py`: the command's handler returns the player's open offer or makes one.
5. `service/domain/rules.py`: `CampaignRules.offer` reserves the amount in the budget, and produces
   the *event* `Offered` and the `OfferRecord`.
6. `service/domain/campaign.py`: `Campaign.decide` chooses the arm and calculates the payment.
7. `model/campaign_step.py`: the compiled decision, with its random streams.
8. `model/step.py`: Algorithm 1, shared with the simulator.
9. `service/storage/unit_of_work.py`: the *unit of work* collects the events, offers, responses and
   campaign states of the transaction, and flushes them to the tables.
10. `service/storage/sqlite.py`: INSERT and UPDATE statements, and a COMMIT that syncs to disk.
"""
