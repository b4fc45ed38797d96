"""Calls to other services, tried again when they fail."""

import random
import time


class TooManyAttempts(Exception):
    """Every attempt failed; the cause is the last failure."""


def call_with_backoff(call, attempts=5, first_wait=0.1, max_wait=10.0):
    """Calls a function until it succeeds, waiting longer after each failure.

    The wait doubles each time, up to a maximum, and is scattered, so that clients that failed together do not come
    back together.
    """
    wait = first_wait
    for attempt in range(attempts):
        try:
            return call()
        except ConnectionError as failure:
            if attempt + 1 == attempts:
                raise TooManyAttempts(attempts) from failure
        time.sleep(wait * random.uniform(0.5, 1.5))
        wait = min(2 * wait, max_wait)


def is_worth_retrying(status):
    """Whether an HTTP status may be gone the next time: too many requests, or the server's own fault."""
    return status == 429 or status >= 500
