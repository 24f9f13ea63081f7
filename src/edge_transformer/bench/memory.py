"""Peak memory of the attention, of an encoder-decoder and of a knowledge graph, each in its own process."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import torch

from .links import PASS, links_pass
from .sizes import Configuration, Size
from .timing import Action, Watch
from .translation import seq2seq_action
from .work import attention_action

NOT_TOLD = "no /proc"
_STATUS, _CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")


def extra_peak(run: Callable[[], object], device: str = "cpu") -> int | None:
    """The peak memory of a call in bytes, above that in use before; None without /proc.

    The peak of the system is reset first. If that is not allowed, an earlier peak may make the number too large.
    """
    if torch.device(device).type == "cuda":
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        run()
        return torch.cuda.max_memory_allocated() - before
    with contextlib.suppress(OSError):
        _CLEAR.write_text("5")
    held = _status("VmRSS")
    run()
    peak = _status("VmHWM")
    return None if held is None or peak is None else max(0, peak - held)


def measure_alone(engine: str, size: Size, threads: int, device: str, layers: int = 0) -> int | str | None:
    """The extra peak of one case in a fresh process, or a text that says why there is none.

    Measures the attention alone, or with `layers` a training step of an encoder-decoder.
    """
    code = f"import sys; from {__name__} import main; main(*sys.argv[1:])"
    arguments = [engine, str(size), str(threads), device, str(layers)]
    # glibc raises the threshold above which it returns freed blocks to the system; kept blocks would count as used.
    # Setting the threshold fixes it.
    environment = {**os.environ, "MALLOC_MMAP_THRESHOLD_": str(1 << 17)}
    command = [sys.executable, "-c", code, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    if done.returncode == 0:
        peak = json.loads(done.stdout)
        return None if peak is None else int(peak)
    if done.returncode < 0:  # by a signal, as when the system runs out of memory
        return "killed, perhaps for want of memory"
    lines = done.stderr.strip().splitlines()
    return lines[-1] if lines else f"failed with exit code {done.returncode}"


def _status(name: str) -> int | None:
    """A number of bytes from the status of this process."""
    try:
        lines = _STATUS.read_text().splitlines()
    except OSError:
        return None
    found = [int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{name}:")]
    return found[0] if found else None


def main(engine: str, size_text: str, threads: str, device: str, layers: str) -> None:
    """Run in the fresh process: print the extra peak in bytes, or null."""
    size = Size.parse(size_text)
    torch.set_num_threads(int(threads))

    def build(size: Size) -> Action:
        if engine == PASS:
            return links_pass(Configuration("", size, int(layers)), device)
        if layers == "0":
            return attention_action(size, engine, device)
        return seq2seq_action(Configuration("", size, int(layers)), 0.0, engine, device)

    action = build(size)
    build(replace(size, batch=1, n=4))(Watch(device))  # a warm-up
    print(json.dumps(extra_peak(lambda: action(Watch(device)), device)))
