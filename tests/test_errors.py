import pickle

from simaccel.errors import ABSENT, Fault, InputError, SimaccelError


def test_input_errors_print_a_line_for_each_fault() -> None:
    error = InputError([Fault("w.yaml", "a.b", "x\ny", "text"), Fault("--n", "n", ABSENT, "1")])
    assert str(error).splitlines() == [
        "w.yaml: a.b: got 'x\\ny'; allowed: text",
        "--n: n: got nothing; allowed: 1",
    ]
    assert isinstance(error, SimaccelError)
    assert error.exit_code == 2


def test_input_errors_survive_pickling() -> None:
    error = InputError([Fault("w.yaml", "a", 1, "2")])
    assert pickle.loads(pickle.dumps(error)).faults == error.faults  # noqa: S301 - its own data


def test_long_values_are_cut() -> None:
    assert str(Fault("f", "a", "x" * 500, "y")) == f"f: a: got '{'x' * 76}...; allowed: y"
    parts = str(Fault("f" * 5000, "a" * 5000, 1, "y" * 5000)).split("...")
    assert parts == ["f" * 257, ": " + "a" * 117, ": got 1; allowed: " + "y" * 797, ""]
