"""The official client, set up as its documentation says, against whatever address it is given.

Prints one JSON line: the charge it got, how the same call says it again, and the error for a key used twice.
"""

import json
import sys

import stripe

stripe.api_key = "sk_test_of_one_customer"
stripe.api_base = sys.argv[1]
stripe.max_network_retries = 8
stripe.default_http_client = stripe.RequestsClient(timeout=4)

# The client makes up a key of its own and sends it again with each retry.
charge = stripe.Charge.create(amount=1200, currency="eur", source="tok_visa")

again = [
    stripe.Charge.create(amount=700, currency="eur", source="tok_visa", idempotency_key="order-7").id
    for _ in range(2)
]
try:
    stripe.Charge.create(amount=701, currency="eur", source="tok_visa", idempotency_key="order-7")
    refused = None
except stripe.IdempotencyError as error:
    refused = type(error).__name__

print(json.dumps({"charge": charge.id, "amount": charge.amount, "again": again, "refused": refused}))
