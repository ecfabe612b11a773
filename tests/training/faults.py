"""What goes wrong in a run on purpose: each function arranges it in the process that calls it."""

import errno
import os
import signal

import torch

import prism_lm.training.checkpoints as checkpoints
import prism_lm.training.loop as loop
import prism_lm.training.metrics as metrics


def kill_while_writing(checkpoint, file):
    """SIGKILL in the middle of writing a file of the n-th checkpoint."""
    written, save_file = [], checkpoints.save_file

    def save(tensors, path, **rest):
        save_file(tensors, path, **rest)
        if path.name == file:
            written.append(path)
            if len(written) == checkpoint:
                os.truncate(path, path.stat().st_size // 2)
                os.kill(os.getpid(), signal.SIGKILL)

    checkpoints.save_file = save


def kill_before_pointing(checkpoint):
    """SIGKILL when the n-th checkpoint is in its place but LATEST does not name it yet."""
    written, write = [], checkpoints.write_file_atomic

    def pointing(path, data):
        written.append(path)
        if len(written) == checkpoint:
            os.kill(os.getpid(), signal.SIGKILL)
        write(path, data)

    checkpoints.write_file_atomic = pointing


def kill_while_finishing():
    """SIGKILL when the model is written and the manifest is not."""

    def die(*arguments, **options):
        os.kill(os.getpid(), signal.SIGKILL)

    loop.folder.write_manifest = die


def full_disk_at_checkpoint(checkpoint):
    """The disk is full when the n-th checkpoint is written."""
    written, save_file = [], checkpoints.save_file

    def save(tensors, path, **rest):
        written.append(path)
        if len(written) > 4 * (checkpoint - 1) + 1:  # four files each, and the disk fills at the second
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
        save_file(tensors, path, **rest)

    checkpoints.save_file = save


def full_disk_at_line(line):
    """The disk is full when the n-th line of metrics is written."""
    written = []

    class Full(metrics.MetricsFile):
        def write(self, **what):
            written.append(what)
            if len(written) < line:
                super().write(**what)
                return
            with metrics.explain_full_disk(self.path):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self.path))

    loop_reporter = __import__("prism_lm.training.reporter", fromlist=["MetricsFile"])
    loop_reporter.MetricsFile = Full


def poison_weights(step):
    """A weight becomes NaN before a step."""
    advance = loop.Training.advance

    def poisoned(self):
        if self.step == step:
            with torch.no_grad():
                next(iter(self.optimiser.groups.vectors)).mul_(float("nan"))
        advance(self)

    loop.Training.advance = poisoned


def stop_signal(step, number):
    """The process gets a signal during a step."""
    advance = loop.Training.advance

    def signalled(self):
        advance(self)
        if self.step == step + 1:
            os.kill(os.getpid(), number)

    loop.Training.advance = signalled


def compile_without_code():
    """Compiled layers are captured as graphs but run without generated code, which would take a minute."""
    compile_in_place = torch.nn.Module.compile
    torch.nn.Module.compile = lambda module: compile_in_place(module, backend="aot_eager", fullgraph=True)
