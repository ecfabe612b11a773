"""One process, data parallel and fully sharded: the differences between them, all in this file.

Processes come from torchrun. Weights are sharded with FSDP2 (`fully_shard`); data parallel is the same with a mesh
that shards over groups of one. A single process needs neither and has no process group.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import cast

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import FSDPModule, fully_shard
from torch.distributed.tensor import DTensor, distribute_tensor

from prism_lm.artifacts.errors import UserError
from prism_lm.training.config import RuntimeSettings


@dataclass(frozen=True, kw_only=True)
class Ranks:
    """This process among its like."""

    rank: int
    world_size: int
    device: torch.device
    mesh: DeviceMesh | None
    """None for a single process."""
    sharded: bool
    """Whether weights are spread over processes, and not only their gradients averaged."""

    @property
    def is_main(self) -> bool:
        """Whether this process writes the files."""
        return self.rank == 0

    def sum(self, tensor: Tensor) -> Tensor:
        """The sum over processes, in place."""
        if self.mesh is not None:
            dist.all_reduce(tensor)
        return tensor

    def largest(self, tensor: Tensor) -> Tensor:
        """The elementwise maximum over processes, in place."""
        if self.mesh is not None:
            dist.all_reduce(tensor, op=dist.ReduceOp.MAX)
        return tensor

    def wait(self) -> None:
        """Returns once all processes are here."""
        if self.mesh is not None:
            dist.barrier()

    def spread(self, root: nn.Module, layers: list[nn.Module]) -> None:
        """Hands the module to FSDP2: each layer a group, embedding, lm_head and bank the root's group."""
        if self.mesh is None:
            return
        for module in (*layers, root):
            spread = fully_shard(module, mesh=self.mesh)
            # The loss is already divided by counts over all processes, so gradients are added, not averaged.
            spread.set_gradient_divide_factor(1.0)
            spread.set_force_sum_reduction_for_comms(True)

    def settle(self, root: nn.Module) -> None:
        """After forward passes without gradient: FSDP2 leaves the root's weights gathered, and stale once changed."""
        if self.mesh is not None:
            cast(FSDPModule, root).reshard()

    def accumulate(self, root: nn.Module, *, last: bool) -> None:
        """Before each micro-batch: replicated weights exchange gradients after the last one only.

        Sharded ones do after each, for otherwise every process would hold a whole gradient.
        """
        if self.mesh is not None and not self.sharded:
            cast(FSDPModule, root).set_requires_gradient_sync(last)


@contextmanager
def processes(runtime: RuntimeSettings) -> Iterator[Ranks]:
    """Joins the processes that torchrun started, or stands alone.

    Raises:
        UserError: the device asked for is not there.
    """
    world_size, rank = int(os.environ.get("WORLD_SIZE", "1")), int(os.environ.get("RANK", "0"))
    device = _device(runtime, int(os.environ.get("LOCAL_RANK", "0")))
    _set_threads(runtime, device)
    if world_size == 1:
        yield Ranks(rank=0, world_size=1, device=device, mesh=None, sharded=False)
        return
    backend = "cpu:gloo,cuda:nccl" if device.type == "cuda" else "gloo"
    dist.init_process_group(backend, timeout=timedelta(minutes=30))
    try:
        sharded = runtime.sharding == "full"
        shape, names = ((world_size,), ("shard",)) if sharded else ((world_size, 1), ("replicate", "shard"))
        mesh = init_device_mesh(device.type, shape, mesh_dim_names=names)
        yield Ranks(rank=rank, world_size=world_size, device=device, mesh=mesh, sharded=sharded)
    finally:
        dist.destroy_process_group()


def whole(tensor: Tensor) -> Tensor:
    """The tensor itself, or all of a sharded one. Every process must call it."""
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor


@torch.no_grad()
def overwrite(tensor: Tensor, value: Tensor) -> None:
    """Writes the whole `value`, the same on every process, into a tensor that may be sharded."""
    if isinstance(tensor, DTensor):
        value = distribute_tensor(value.to(tensor.device), tensor.device_mesh, tensor.placements, src_data_rank=None)
    tensor.copy_(value)


def _device(runtime: RuntimeSettings, local_rank: int) -> torch.device:
    if runtime.device == "cuda" and not torch.cuda.is_available():
        raise UserError("runtime.device is cuda and torch sees no GPU here; use runtime.device cpu or auto")
    if runtime.device == "cpu" or not torch.cuda.is_available():
        return torch.device("cpu")
    if local_rank >= torch.cuda.device_count():
        raise UserError(
            f"torchrun started process {local_rank} of this machine and torch sees {torch.cuda.device_count()} GPUs; "
            "start one process a GPU"
        )
    device = torch.device("cuda", local_rank)
    torch.cuda.set_device(device)
    return device


def _set_threads(runtime: RuntimeSettings, device: torch.device) -> None:
    local = int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
    if runtime.threads is not None:
        torch.set_num_threads(runtime.threads)
    elif local > 1 and device.type == "cpu":
        # torchrun sets OMP_NUM_THREADS to 1 unless it is given, which leaves cores idle.
        torch.set_num_threads(max(1, len(os.sched_getaffinity(0)) // local))
