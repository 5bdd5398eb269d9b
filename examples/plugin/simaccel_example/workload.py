"""The workload `autoencoder`: two fully connected layers with softsign between them."""

from simaccel.workload import Workload, parse_workload


def autoencoder(*, batch: int = 1) -> Workload:
    """Return the layers for `batch` images of 784 pixels, with 64 numbers in the middle."""
    document = {
        "kind": "einsums",
        "name": "autoencoder",
        "tensors": {
            "X": {"kind": "input"},
            "W1": {"kind": "weight"},
            "H": {"kind": "intermediate"},
            "Z": {"kind": "intermediate"},
            "W2": {"kind": "weight"},
            "Y": {"kind": "output"},
        },
        "operators": {
            "encode": _product(batch, 784, 64, ("X", "W1", "H")),
            "squash": {
                "kind": "softsign",
                "ranks": {"m": batch, "n": 64},
                "inputs": [{"tensor": "H", "projection": ["m", "n"]}],
                "output": {"tensor": "Z", "projection": ["m", "n"]},
            },
            "decode": _product(batch, 64, 784, ("Z", "W2", "Y")),
        },
    }
    return parse_workload(document, "autoencoder")


def _product(m: int, k: int, n: int, tensors: tuple[str, str, str]) -> dict[str, object]:
    given, weights, made = tensors
    return {
        "ranks": {"m": m, "k": k, "n": n},
        "inputs": [
            {"tensor": given, "projection": ["m", "k"]},
            {"tensor": weights, "projection": ["k", "n"]},
        ],
        "output": {"tensor": made, "projection": ["m", "n"]},
    }
