"""A limit on the wall time of a block of code in the main thread."""

import contextlib
import signal


@contextlib.contextmanager
def limited_to(seconds):
    """Raises TimeoutError in the block once `seconds` have passed."""

    def stop(_signal, _frame):
        raise TimeoutError(f"not ready after {seconds:g} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
