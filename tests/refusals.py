"""What is refused: the message, or the faults, of a call that ends in an error."""

from collections.abc import Callable, Sequence

import pytest

from simaccel.errors import Fault, InputError


def refusal_of(
    call: Callable[..., object],
    *args: object,
    error: type[Exception] = InputError,
    **kwargs: object,
) -> str:
    """Call something that ends in this error; return its message."""
    with pytest.raises(error) as caught:
        call(*args, **kwargs)
    return str(caught.value)


def faults_of(call: Callable[..., object], *args: object, **kwargs: object) -> Sequence[Fault]:
    """Call something that ends in a refusal; return its faults."""
    with pytest.raises(InputError) as caught:
        call(*args, **kwargs)
    return caught.value.faults
