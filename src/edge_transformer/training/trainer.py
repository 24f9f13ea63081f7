"""The training loop: the same for every task and model.

A step computes one batch group by group without padding, adds up the gradients over groups and processes, and updates
the weights once. The checkpoint has all state, so a run that was killed and resumed ends with the same weights.
"""

from __future__ import annotations

import math
import platform
import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from ..data.tensors import batches_by_length, batches_by_words, count_by_words
from ..errors import UserError
from ..io.process import Stopwatch, collected_signals, prepare_process
from ..io.progress import AnyBar, bar, report
from ..io.records import Record, code_commit, is_fraction, read_record
from ..nn.encoder import recompute
from ..tasks.base import RECORD_FILE, TaskData, TaskModel
from .best import BestWeights
from .config import Hardware, RunConfig
from .folder import RunFolder, SavedRun, load_checkpoint, save_checkpoint
from .launch import launch
from .optimizer import learning_rate, make_optimizer
from .track import Callback, TrainingStep

TO_STOP = (signal.SIGINT, signal.SIGTERM)
STEPS_A_PLAN = 10  # steps between looks at the time


class _ScoringStopped(Exception):
    """A signal arrived during scoring."""


class Trainer:
    """A run in progress, in its folder."""

    def __init__(
        self, run: RunConfig, data: TaskData, folder: str | Path, hardware: Hardware | None = None, command: str = ""
    ) -> None:
        data.require_memory(run.settings["model"])
        self.run, self.data, self.folder, self.command = run, data, RunFolder(folder), command
        self.config = run.train
        self.commit = code_commit()  # at the start: the checkout may change during training
        hardware = hardware or Hardware()
        prepare_process(hardware.threads)
        self.precision = hardware.precision
        self.fabric = launch(hardware)
        self.device = self.fabric.device
        torch.manual_seed(run.seed)  # the same initial weights on every process
        self.model: TaskModel = data.new_model(run.settings["model"])
        recompute(self.model, hardware.recompute)
        self.wrapped = self.fabric.setup_module(self.model)  # applies precision; the trainer sums gradients itself
        torch.manual_seed(run.seed * 1_000_003 + self.fabric.global_rank)  # different dropout on each process
        self.optimizer = make_optimizer(self.config, self.model)
        self.averaged = _weights(self.model) if self.config.average else []
        self.batches_an_epoch = self._count_batches()
        self.total_steps = self.config.epochs * self.batches_an_epoch
        if self.config.steps is not None:
            self.total_steps = min(self.config.steps, self.total_steps)
        self.step = 0
        self.planned_steps = self.total_steps  # before time or patience cut them
        self.stopped_by = ""  # "minutes" or "patience", once they have
        self.best = BestWeights()
        self.time = Stopwatch()
        self.history: list[dict[str, Any]] = []
        self.loss_sum, self.loss_weight = 0.0, 0.0  # since the last evaluation
        self._started, self._rows_done = time.monotonic(), 0  # of this process, to show its speed
        self._loss: float | None = None  # of the last step, if this process took one
        self._batches: tuple[int, list[Tensor]] = (-1, [])  # epoch, its batches
        self._claim_folder()

    # --- the loop -------------------------------------------------------------------------------------------------

    def train(
        self,
        checkpoint_seconds: float = 60.0,
        after_evaluation: Callable[[dict[str, Any]], None] | None = None,
        resumable: bool = True,
        callbacks: Sequence[Callback] = (),
    ) -> Record | None:
        """Train to the end; None if Ctrl-C or SIGTERM stopped it, after a last checkpoint.

        `after_evaluation` gets each new entry of the history, and may raise to abort the run. A run that is not
        `resumable` does not catch these signals. `callbacks` get every step, on the first process; if one raises, the
        step is saved before the error goes on.
        """
        if (self.folder.path / RECORD_FILE).exists():
            return read_record(self.folder.path / RECORD_FILE)
        saved = self._started = time.monotonic()
        self.time.start()
        signals = collected_signals(TO_STOP if resumable else (), once=True)
        with signals as stopped, bar("training", self.total_steps, done=self.step) as shown:
            while not self._is_done():
                if not self._scores_are_due():  # they are if a signal stopped scoring
                    self._train_step(shown)
                    self.time.stop()
                    self._keep_to_time(shown)
                scored = self._scores_are_due() and self._evaluate(stopped)
                if scored and after_evaluation:
                    after_evaluation(self.history[-1])
                self._tell(callbacks if self.step < self.next_told() else (), scored, resumable)
                stop, due = self._any_process(bool(stopped), time.monotonic() - saved >= checkpoint_seconds)
                if stop or due or self._is_done():
                    self.save_checkpoint()
                    saved = time.monotonic()
                if stop and not self._is_done():
                    return None
        return self._finish()

    def next_told(self) -> int:
        """The number of the first step that callbacks have not got: one that is still to be scored counts as such."""
        return self.step + (not self._scores_are_due())

    def _tell(self, callbacks: Sequence[Callback], scored: bool, resumable: bool) -> None:
        """Tell callbacks of the last step."""
        if self.fabric.global_rank != 0 or not callbacks:
            return
        now = TrainingStep(
            self.step,
            self.total_steps,
            -(-self.step // self.batches_an_epoch),
            self.history[-1]["loss"] if self._loss is None else self._loss,
            learning_rate(self.config, self.step - 1, self.total_steps),
            self.time.minutes,
            dict(self.history[-1]["scores"]) if scored else {},
        )
        try:
            for callback in callbacks:
                callback(now)
        except Exception:
            if resumable and self.fabric.world_size == 1:  # alone, as other processes would not save with this one
                self.save_checkpoint()
            raise

    def _keep_to_time(self, shown: AnyBar) -> None:
        """Plan as many steps as the minutes allow, by the speed so far; the first steps are the slowest."""
        if self.config.minutes is None or self.step % STEPS_A_PLAN:
            return
        possible = max(self.step, int(self.step * self.config.minutes / max(self.time.minutes, 1e-9)))
        if self.fabric.world_size > 1:  # all stop at the same step
            possible = int(self.fabric.broadcast(possible))
        self.total_steps = min(possible, self.planned_steps)
        self.stopped_by = "minutes" if possible < self.planned_steps else ""
        shown.set_total(self.total_steps)

    def _scores_are_due(self) -> bool:
        """Whether the model must be scored after the last step, and has not been."""
        epochs, rest = divmod(self.step, self.batches_an_epoch)
        due = self.step == self.total_steps or (self.step > 0 and not rest and epochs % self.config.evaluate_every == 0)
        last = self.history[-1] if self.history else {}
        return due and (last.get("step") != self.step or (self.step == self.total_steps and not last["is_last"]))

    def _is_done(self) -> bool:
        return self.step == self.total_steps and not self._scores_are_due()

    def _train_step(self, shown: AnyBar) -> None:
        epoch, position = divmod(self.step, self.batches_an_epoch)
        rows = self._epoch(epoch)[position]
        loss = self._loss = self.take_step(rows)
        self.step += 1
        weight = self.data.weight(rows)
        self.loss_sum += loss * weight
        self.loss_weight += weight
        self._rows_done += len(rows)
        speed = self._rows_done / max(1e-9, time.monotonic() - self._started)
        shown.advance(1, note=f"loss {self.loss_sum / self.loss_weight:.3f}, {speed:,.0f} rows/s", value=loss)

    def take_step(self, rows: Tensor) -> float:
        """Update the weights once, by the gradient of these rows; returns the loss."""
        loss = self._accumulate_gradients(rows)
        if not math.isfinite(loss):
            raise self._diverged("loss", loss)
        norm = nn.utils.clip_grad_norm_(self.model.parameters(), self.config.clip or math.inf)
        if not math.isfinite(norm):
            raise self._diverged("gradient", float(norm))
        rate = learning_rate(self.config, self.step, self.total_steps)
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        self.optimizer.step()
        self._average_weights()
        return loss

    def _diverged(self, what: str, value: float) -> UserError:
        return UserError(
            f"the {what} is {value} at step {self.step} of {self.total_steps}: training diverged; "
            "try a smaller learning rate (--set train.lr=...) or more warm-up (--set train.warmup_steps=...)"
        )

    def _count_batches(self) -> int:
        """The number of batches of an epoch."""
        if self.config.batches == "words":
            return count_by_words(self.data.train_sizes(), self.config.batch_size)
        return -(-self.data.train_rows // self.config.batch_size)

    def _epoch(self, epoch: int) -> list[Tensor]:
        """The batches of an epoch, cached."""
        if self._batches[0] != epoch:
            how = self.config.batch_size, self.run.seed, epoch
            if self.config.batches == "words":
                self._batches = (epoch, batches_by_words(self.data.train_sizes(), *how))
            elif self.config.batches == "length":
                self._batches = (epoch, batches_by_length(self.data.train_shapes(), *how))
            else:
                self._batches = (epoch, self.data.shuffled(*how))
        return self._batches[1]

    def _accumulate_gradients(self, rows: Tensor) -> float:
        """Set the gradients to those of the mean loss of `rows`, over all processes; returns the loss."""
        for parameter in self.model.parameters():
            _gradient(parameter).zero_()  # zero, not none: momentum still moves a weight without gradient
        share = rows[self.fabric.global_rank :: self.fabric.world_size]
        weight = self.data.weight(rows)
        total = torch.zeros((), device=self.device)
        # Processes may have different numbers of groups, so their gradients are summed once, at the end.
        alone = nullcontext() if self.fabric.world_size == 1 else self.fabric.no_backward_sync(self.wrapped)
        with alone:
            for batch in self.data.batches(share):
                loss = self.data.loss(self.wrapped, batch, self.device) / weight
                self.fabric.backward(loss)
                total += loss.detach()
        if self.fabric.world_size > 1:
            gradients = [_gradient(parameter) for parameter in self.model.parameters()]
            flat = torch.cat([total.reshape(1), *(gradient.reshape(-1) for gradient in gradients)])
            torch.distributed.all_reduce(flat)
            total, *parts = flat.split([1, *(gradient.numel() for gradient in gradients)])
            for gradient, part in zip(gradients, parts, strict=True):
                gradient.copy_(part.view_as(gradient))
        return float(total)

    def _average_weights(self) -> None:
        """Update the moving average of the weights, with a smaller decay in the first steps."""
        if self.averaged:
            decay = min(self.config.average, (1 + self.step) / (10 + self.step))
            with torch.no_grad():
                torch._foreach_lerp_(self.averaged, list(self.model.parameters()), 1 - decay)

    @contextmanager
    def _scored_weights(self) -> Iterator[None]:
        """Put the model in eval mode, with its averaged weights if any, for a block."""
        own = _weights(self.model) if self.averaged else []
        _copy(self.averaged, self.model)
        self.model.eval()
        try:
            yield
        finally:
            self.model.train()
            _copy(own, self.model)

    def _evaluate(self, stopped: list[int]) -> bool:
        """Score the model: on everything after the last step, before that on the task's midway rows.

        False if a signal in `stopped` interrupted it; a resumed run starts it again. Several processes always finish
        scoring, as each waits for the others.
        """
        rows, evaluate = self.data.midway_rows, self.data.evaluate_midway
        last = self.step == self.total_steps
        if last and self.config.keep == "best" and not self._keeps_best(stopped):
            return False
        if last:
            self._calibrate()
            rows, evaluate = self.data.evaluation_rows, self.data.evaluate
        try:
            with self._scored_weights(), bar("scoring", rows()) as shown:
                scores = evaluate(self.wrapped, self.device, self._stopping(shown, stopped))
        except _ScoringStopped:
            return False
        finally:
            self.time.stop()
        epoch = -(-self.step // self.batches_an_epoch)
        if self.loss_weight:
            loss = self.loss_sum / self.loss_weight
            self.loss_sum = self.loss_weight = 0.0
        else:  # patience ended after these weights were scored on the validation rows
            loss = self.history.pop()["loss"]
        self.history.append(
            {"epoch": epoch, "step": self.step, "loss": round(loss, 6), "is_last": last, "scores": scores}
        )
        epochs = -(-self.total_steps // self.batches_an_epoch)
        listed = "  ".join(
            f"{name} {100 * value:.1f}" if is_fraction(name) else f"{name} {value:.4f}"
            for name, value in scores.items()
        )
        report(f"epoch {epoch} of {epochs}: loss {loss:.4f}  {listed}")
        if not last:
            self._choose(scores)
        self._write_status()
        return True

    def _choose(self, scores: Mapping[str, float]) -> None:
        """Keep the weights that were just scored if they are the best; stop where none was better for long."""
        found = self.data.choice(scores)
        if found is None or (self.config.patience is None and self.config.keep == "last"):
            return
        loss, scored = scores.get("valid loss", math.inf), len(self.history)
        with self._scored_weights():
            self.best.offer(*found, loss, self.step, scored, lambda: _weights(self.model))
        patience = self.config.patience
        if patience is not None and self.best.waited(scored) >= patience and self.step < self.total_steps:
            self.total_steps, self.stopped_by = self.step, "patience"

    def _keeps_best(self, stopped: list[int]) -> bool:
        """After the last step: score these weights too, then go back to the best ones; False if a signal came."""
        if self.stopped_by != "patience":
            try:
                with self._scored_weights(), bar("scoring", self.data.midway_rows()) as shown:
                    scores = self.data.evaluate_midway(self.wrapped, self.device, self._stopping(shown, stopped))
            except _ScoringStopped:
                return False
            self._choose(scores)
        _copy(self.best.weights, self.model)
        if self.averaged and self.best.weights:
            self.averaged = _weights(self.model)
        return True

    def _calibrate(self) -> None:
        with self._scored_weights():
            self.data.calibrate(self.model, self.device)

    def _stopping(self, shown: AnyBar, stopped: list[int]) -> Callable[[int], None]:
        """Advances the bar; raises where a signal came, as several processes always finish scoring."""

        def advance(count: int) -> None:
            shown.advance(count)
            if stopped and self.fabric.world_size == 1:
                raise _ScoringStopped

        return advance

    def _finish(self) -> Record:
        """Save the trained model and the record of the run."""
        record = Record(
            task=self.run.task,
            data=self.data.identity(),
            model=self.run.settings["model"]["kind"],
            preset=self.run.preset,
            overrides=self.run.overrides,
            seed=self.run.seed,
            metrics={**self.history[-1]["scores"], "loss": self.history[-1]["loss"]},
            minutes=round(self.time.minutes, 2),
            cpu_minutes=None if self.time.cpu_minutes is None else round(self.time.cpu_minutes, 2),
            threads=torch.get_num_threads(),
            versions=_versions(),
            command=self.command,
            finished=datetime.now(UTC).isoformat(timespec="seconds"),
            settings=self.run.recorded_settings(self.precision),
            commit=self.commit,
        )
        with self._scored_weights():
            if self.fabric.global_rank == 0:
                self.model.task, self.model.record = self.run.task, record
                self.model.save(self.folder.path)
        self.fabric.barrier()
        return record

    def trained_model(self) -> TaskModel:
        """The model in eval mode, with its averaged weights if any."""
        _copy(self.averaged, self.model)
        self.model.task = self.run.task
        return self.model.eval()

    # --- the folder -----------------------------------------------------------------------------------------------

    def _claim_folder(self) -> None:
        """Take the folder, and resume a stopped run in it."""
        processes = self.fabric.world_size
        mine = SavedRun(self.run, self.data.identity(), self.data.folder, processes, self.precision)
        if self.fabric.global_rank == 0:
            self.folder.claim(mine)
        self.fabric.barrier()
        if self.folder.checkpoint.exists():
            try:
                self._load_checkpoint()
            except UserError:
                self.folder.release()
                raise
        self.fabric.barrier()

    def release_folder(self) -> None:
        """Let another process train in this folder, as the end of this process does."""
        self.folder.release()

    def _write_status(self) -> None:
        if self.fabric.global_rank == 0:
            self.folder.write_status(self.step, self.total_steps, self.time.minutes, self.history)

    def save_checkpoint(self) -> None:
        """Write the whole state of the run."""
        randoms = self._gather_random_states()
        if self.fabric.global_rank == 0:
            tensors = {f"model.{name}": tensor for name, tensor in self.model.state_dict().items()}
            tensors |= {f"average.{number}": tensor for number, tensor in enumerate(self.averaged)}
            tensors |= {f"best.{number}": tensor for number, tensor in enumerate(self.best.weights)}
            tensors |= {f"random.{number}": state for number, state in enumerate(randoms)}
            for number, values in self.optimizer.state_dict()["state"].items():
                tensors |= {f"optimizer.{number}.{name}": value for name, value in values.items()}
            state = {
                "step": self.step,
                "minutes": self.time.minutes,
                "cpu_minutes": self.time.cpu_minutes,
                "history": self.history,
                "loss_sum": self.loss_sum,
                "loss_weight": self.loss_weight,
                "total_steps": self.total_steps,
                "stopped_by": self.stopped_by,
                "chosen": self.best.chosen,
            }
            save_checkpoint(self.folder.checkpoint, tensors, state)
        self._write_status()
        self.fabric.barrier()

    def _load_checkpoint(self) -> None:
        path = self.folder.checkpoint
        tensors, state = load_checkpoint(path)
        parts: dict[str, dict[str, Tensor]] = {"model": {}, "average": {}, "best": {}, "random": {}, "optimizer": {}}
        try:
            for name, tensor in tensors.items():
                part, _, rest = name.partition(".")
                parts[part][rest] = tensor
            self.model.load_state_dict(parts["model"])
            with torch.no_grad():
                for number, weight in enumerate(self.averaged):
                    weight.copy_(parts["average"][str(number)])
            self.best.weights = [parts["best"][str(n)].to(self.device) for n in range(len(parts["best"]))]
            moments: dict[int, dict[str, Tensor]] = {}
            for name, tensor in parts["optimizer"].items():
                weight_number, _, field = name.partition(".")
                moments.setdefault(int(weight_number), {})[field] = tensor
            self.optimizer.load_state_dict(
                {"state": moments, "param_groups": self.optimizer.state_dict()["param_groups"]}
            )
            self._set_random_state(parts["random"][str(self.fabric.global_rank)])
            self.step, self.history = state["step"], state["history"]
            self.time.set(state["minutes"], state["cpu_minutes"])
            self.loss_sum, self.loss_weight = state["loss_sum"], state["loss_weight"]
            self.total_steps, self.stopped_by = state["total_steps"], state["stopped_by"]
            self.best.chosen = state["chosen"]
        except (KeyError, RuntimeError, ValueError) as error:
            raise UserError(f"{path}: not a checkpoint of this run: {error}") from error

    def _random_state(self) -> Tensor:
        """The states of the random generators, as bytes: the CPU's, and that of a CUDA device."""
        state = torch.get_rng_state()
        if self.device.type == "cuda":
            state = torch.cat([state, torch.cuda.get_rng_state(self.device)])
        return state

    def _set_random_state(self, state: Tensor) -> None:
        cpu = len(torch.get_rng_state())
        torch.set_rng_state(state[:cpu].contiguous())
        if self.device.type == "cuda":
            torch.cuda.set_rng_state(state[cpu:].contiguous(), self.device)

    def _gather_random_states(self) -> list[Tensor]:
        state = self._random_state()
        if self.fabric.world_size == 1:
            return [state]
        return list(self.fabric.all_gather(state.to(self.device)).cpu().unbind(0))

    def _any_process(self, *values: bool) -> list[bool]:
        """For each value, whether any process has it true: all must stop, or save, at the same step."""
        if self.fabric.world_size == 1:
            return list(values)
        flags = torch.tensor(values, dtype=torch.float32, device=self.device)
        torch.distributed.all_reduce(flags)
        return [flag > 0 for flag in flags.tolist()]


def _gradient(weight: nn.Parameter) -> Tensor:
    """The gradient of a weight; zeros if it has none yet."""
    if weight.grad is None:
        weight.grad = torch.zeros_like(weight)
    return weight.grad


def _weights(model: nn.Module) -> list[Tensor]:
    """A copy of the weights of a model."""
    return [weight.detach().clone() for weight in model.parameters()]


def _copy(source: list[Tensor], model: nn.Module) -> None:
    """Set the weights of a model; an empty list changes nothing."""
    with torch.no_grad():
        for weight, value in zip(model.parameters() if source else (), source, strict=True):
            weight.copy_(value)


def _versions() -> dict[str, str]:
    mine = metadata.version("edge-transformer")
    return {"edge_transformer": mine, "torch": torch.__version__, "python": platform.python_version()}
