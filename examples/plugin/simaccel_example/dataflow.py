"""The dataflow `whole`: each GEMM as a single tile, for buffers that are large enough."""

from simaccel.hardware import Accelerator
from simaccel.mapping.space import space_of
from simaccel.mapping.tree import Do, Group, Keep, Mapping, WorkloadReference
from simaccel.schedulers import NotMappableError, Options
from simaccel.workload import Einsum, Workload


def whole(workload: Workload, accelerator: Accelerator, _: Options) -> Mapping:
    """Keep the tensors of every operator whole, and execute it at once.

    Raises:
        NotMappableError: the array is not systolic.
    """
    if accelerator.array.kind != "systolic":
        raise NotMappableError(f"whole takes systolic arrays; {accelerator.name} has another")
    groups = []
    for operator in workload.operators:
        group = Group(operators=(operator.name,), tree=())
        (seen,) = space_of(workload, group).operators
        keeps = [Keep(name, slots=1) for name in (*seen.names, seen.output.name)]
        einsum = isinstance(operator, Einsum)
        do = Do(operator.name, "array", "ws") if einsum else Do(operator.name, "sfu")
        groups.append(Group(operators=group.operators, tree=(*keeps, do)))
    reference = WorkloadReference(workload.name, workload.fingerprint)
    return Mapping(workload=reference, dataflow="whole", body=tuple(groups))
