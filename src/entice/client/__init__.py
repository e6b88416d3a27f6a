"""A client of the service that `entice serve` runs, on the standard library and msgspec.

Every write has an idempotency key, so it is retried safely after a lost connection or a temporary
error (429, 503): the service executes it once and returns the same response. Errors that retries
do not resolve raise `ServiceError`.

    from entice.client import Client

    with Client("http://127.0.0.1:8000") as shop:  # elsewhere also key="entice_…"
        tea = shop.create_campaign(
            name="tea", arms=["assam", "sencha", "oolong"], budget=100_00, price_of_a_star=2_00
        )
        offer = shop.offer(tea.id, "player 1")  # show offer.arm, promise offer.amount
        shop.accept(offer.id)                   # or shop.decline(offer.id)
        shop.rate(offer.id, 4)                  # minutes or weeks later, or never

Amounts of money are whole numbers of the currency's minor unit. Ratings and payments are in stars.
`entice.api_types` has the types of the results.
"""

from entice.client.client import Client
from entice.client.connection import ServiceError
from entice.client.webhook import read_webhook

__all__ = ["Client", "ServiceError", "read_webhook"]
