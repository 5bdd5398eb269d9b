"""Any mapping, legal or not, for tests of its text."""

from hypothesis import strategies as st

from simaccel.hardware import STATIONARITIES
from simaccel.mapping.tree import (
    FANS,
    Do,
    Fork,
    Group,
    Keep,
    Loop,
    Mapping,
    Part,
    ResidentScope,
    Span,
    Spread,
    Tree,
    WorkloadReference,
)
from simaccel.units import LEAF_UNITS

_NAMES = st.sampled_from(["q", "S", "A#1", "conv2_1", "rest", "merging", "x2"]) | st.text(
    max_size=5
).filter(str.isprintable)  # names of others are refused with their workload
_SIZES = st.integers(0, 10**6)
_REGIONS = st.lists(st.builds(Span, _SIZES, _SIZES), max_size=3).map(tuple)
_KEEPS = st.builds(Keep, _NAMES, _NAMES, st.integers(0, 9), _REGIONS)
_NODES = (
    st.builds(Loop, _NAMES, _SIZES)
    | st.builds(Spread, _NAMES, _SIZES, st.sampled_from(FANS))
    | _KEEPS
    | st.builds(Do, _NAMES, st.sampled_from(LEAF_UNITS), st.sampled_from([None, *STATIONARITIES]))
)


def _trees(inner: st.SearchStrategy[Tree]) -> st.SearchStrategy[Tree]:
    branches = st.lists(inner, max_size=3).map(tuple)
    sizes = st.lists(_SIZES, max_size=2).map(tuple)
    forks = st.builds(Fork, branches, st.integers(0, 3)) | st.builds(Part, _NAMES, sizes, branches)
    return st.lists(_NODES | forks, max_size=4).map(tuple)


TREES = st.recursive(st.lists(_NODES, max_size=3).map(tuple), _trees, max_leaves=6)
GROUPS = st.builds(
    Group,
    operators=st.lists(_NAMES, max_size=3).map(tuple),
    tree=TREES,
    merged=st.dictionaries(_NAMES, st.lists(_NAMES, min_size=1, max_size=3).map(tuple), max_size=2),
    padded=st.dictionaries(_NAMES, _SIZES, max_size=2),
    joined=st.booleans(),
)
_AROUNDS = st.builds(
    ResidentScope,
    keeps=st.lists(_KEEPS, max_size=3).map(tuple),
    groups=st.lists(GROUPS, max_size=2).map(tuple),
)
MAPPINGS = st.builds(
    Mapping,
    workload=st.builds(WorkloadReference, _NAMES, _NAMES),
    dataflow=_NAMES,
    body=st.lists(GROUPS | _AROUNDS, max_size=3).map(tuple),
)
