"""The row of one run of a study."""

from simaccel.study.points import Point, StudyRow
from simaccel.study.runs import make_record, row_of


def row_with_run(point: Point) -> StudyRow:
    """Run a point of one workload; return its row, with the run as JSON has it."""
    return row_of(point, [make_record(point, whole=True)])
