"""A client of the payment service."""

import json
import urllib.request

from .retry import call_with_backoff


class PaymentClient:
    """Talks to the payment service."""

    def __init__(self, address, token):
        self.address = address
        self.token = token

    def charge(self, order_id, cents):
        """Takes money for an order, at most once, however often it is asked."""
        return self._post("charges", {"order": order_id, "cents": cents, "idempotency_key": f"charge-{order_id}"})

    def refund(self, charge_id):
        """Gives the money of a charge back."""
        return self._post("refunds", {"charge": charge_id})

    def _post(self, path, body):
        request = urllib.request.Request(
            f"{self.address}/{path}",
            data=json.dumps(body).encode(),
            headers={"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"},
        )
        with call_with_backoff(lambda: urllib.request.urlopen(request, timeout=5)) as response:
            return json.load(response)
