from collections.abc import Sequence
from simaccel.errors import Fault, InputError
def require_mapping(workload, mapping, accelerator=None, file="mapping"): pass
