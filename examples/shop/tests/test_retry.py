from net.retry import call_with_backoff, is_worth_retrying


def test_call_with_backoff_tries_again():
    failures = [ConnectionError(), ConnectionError()]

    def call():
        if failures:
            raise failures.pop()
        return "done"

    assert call_with_backoff(call, first_wait=0) == "done"


def test_client_errors_are_not_worth_retrying():
    assert not is_worth_retrying(404)
