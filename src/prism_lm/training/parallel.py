"""One process, data parallel and fully sharded: the differences between them, all in this file.

Processes come from torchrun. Weights are sharded with FSDP2 (`fully_shard`); data parallel is the same with
a mesh that shards over groups of one. A single process needs neither and has no process group.
"""

import os
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import TypeVar, cast

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import FSDPModule, fully_shard
from torch.distributed.tensor import DTensor, distribute_tensor

from prism_lm.artifacts.errors import UserError
from prism_lm.training.config import RuntimeSettings

Result = TypeVar("Result")
# How long one process waits for another, which may be writing a large checkpoint.
PATIENCE = timedelta(minutes=30)


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

    def by_main(self, work: Callable[[], Result]) -> Result | None:
        """Lets the main process do something, waits for it, and fails everywhere when it fails.

        Returns what it returned, and None on the other processes.

        Raises:
            UserError: on the main process its own; on the others one that says so.
        """
        if self.mesh is None:
            return work()
        result, problem = None, None
        if self.is_main:
            try:
                result = work()
            except Exception as error:  # raised below, once the others know
                problem = error
        failed = torch.tensor([int(problem is not None)], dtype=torch.int32)
        dist.all_reduce(failed)
        if problem is not None:
            raise problem
        if failed:
            raise UserError("the main process stopped, and its line says why")
        return result

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
        """After forward passes without gradient: FSDP2 leaves the root's weights gathered, and stale once
        changed.
        """
        if self.mesh is not None:
            cast("FSDPModule", root).reshard()

    def accumulate(self, root: nn.Module, *, last: bool) -> None:
        """Before each micro-batch: replicated weights exchange gradients after the last one only.

        Sharded ones do after each, for otherwise every process would hold a whole gradient.
        """
        if self.mesh is not None and not self.sharded:
            cast("FSDPModule", root).set_requires_gradient_sync(last)


@contextmanager
def processes(runtime: RuntimeSettings) -> Generator[Ranks]:
    """Joins the processes that torchrun started, or stands alone.

    Raises:
        UserError: the device asked for is not there.
    """
    device = _device(runtime, int(os.environ.get("LOCAL_RANK", "0")))
    with _settings(runtime, device):
        if int(os.environ.get("WORLD_SIZE", "1")) == 1:
            yield Ranks(rank=0, world_size=1, device=device, mesh=None, sharded=False)
            return
        dist.init_process_group("cpu:gloo,cuda:nccl" if device.type == "cuda" else "gloo", timeout=PATIENCE)
        try:
            yield _ranks(runtime, device)
        finally:
            dist.destroy_process_group()


def _ranks(runtime: RuntimeSettings, device: torch.device) -> Ranks:
    rank, world_size = dist.get_rank(), dist.get_world_size()
    sharded = runtime.sharding == "full"
    shape, names = ((world_size,), ("shard",)) if sharded else ((world_size, 1), ("replicate", "shard"))
    mesh = init_device_mesh(device.type, shape, mesh_dim_names=names)
    return Ranks(rank=rank, world_size=world_size, device=device, mesh=mesh, sharded=sharded)


def whole(tensor: Tensor) -> Tensor:
    """The tensor itself, or all of a sharded one. Every process must call it."""
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor


@torch.no_grad()
def overwrite(tensor: Tensor, value: Tensor) -> None:
    """Writes the whole `value`, the same on every process, into a tensor that may be sharded."""
    if isinstance(tensor, DTensor):
        value = distribute_tensor(
            value.to(tensor.device), tensor.device_mesh, tensor.placements, src_data_rank=None
        )
    tensor.copy_(value)


def _device(runtime: RuntimeSettings, local_rank: int) -> torch.device:
    if runtime.device == "cuda" and not torch.cuda.is_available():
        raise UserError("runtime.device is cuda and torch sees no GPU here; use runtime.device cpu or auto")
    if runtime.device == "cpu" or not torch.cuda.is_available():
        return torch.device("cpu")
    if local_rank >= torch.cuda.device_count():
        raise UserError(
            f"torchrun started process {local_rank} of this machine and torch sees "
            f"{torch.cuda.device_count()} GPUs; start one process a GPU"
        )
    device = torch.device("cuda", local_rank)
    torch.cuda.set_device(device)
    return device


@contextmanager
def _settings(runtime: RuntimeSettings, device: torch.device) -> Generator[None]:
    """torch's process-wide settings, put back afterwards."""
    threads, deterministic = torch.get_num_threads(), torch.are_deterministic_algorithms_enabled()
    torch.set_num_threads(_threads(runtime, device) or threads)
    if runtime.deterministic:
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # read when cuBLAS starts
        torch.use_deterministic_algorithms(True)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
        torch.use_deterministic_algorithms(deterministic)


def _threads(runtime: RuntimeSettings, device: torch.device) -> int | None:
    local = int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
    if runtime.threads is None and local > 1 and device.type == "cpu":
        # torchrun sets OMP_NUM_THREADS to 1 unless it is given, which leaves cores idle.
        return max(1, len(os.sched_getaffinity(0)) // local)
    return runtime.threads
