"""A run's compiled programs, state and files."""

import json
import resource
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
import orbax.checkpoint as ocp
from flax import nnx
from jax import Array
from tqdm import tqdm

from corpus import load_corpus, training_batch, validation_batches
from model import COMPUTE_DTYPE, create_model, generate, loss, parameter_count
from ops import Attention, attentions, create_ops
from settings import ATTENTION_FILE, CHECKPOINT_FOLDER, METRICS_FILE, RESULT_FILE, SAMPLE_FILE, Settings

SAMPLE_PROMPT = b"def read("
SAMPLE_TEMPERATURE = 0.7
CHOICE_ROUNDS = 5
SHARE_SAMPLES = 10


class TrainState(NamedTuple):
    parameters: nnx.State
    optimizer: optax.OptState


class AttentionTimer:
    """One layer's attention, forward and backward, on the run's own shape and dtype; a call returns its seconds."""

    def __init__(self, attention: Attention, settings: Settings) -> None:
        s = settings
        heads = (s.heads, s.kv_heads, s.kv_heads, s.heads)
        keys = jax.random.split(jax.random.key(s.seed), len(heads))
        *inputs, cotangent = (
            jax.random.normal(key, (s.batch, s.sequence_length, n, s.head_size), COMPUTE_DTYPE)
            for key, n in zip(keys, heads, strict=True)
        )

        def forward_and_backward(inputs: list[Array], cotangent: Array) -> Any:
            out, pull_back = jax.vjp(attention, *inputs)
            return out, pull_back(cotangent)

        self._arguments = (inputs, cotangent)
        self._program = jax.jit(forward_and_backward).lower(*self._arguments).compile()
        self()  # the first execution is slower than the others

    def __call__(self) -> float:
        start = time.perf_counter()
        jax.block_until_ready(self._program(*self._arguments))
        return time.perf_counter() - start


def choose_attention(folder: Path, settings: Settings) -> dict[str, Any]:
    """`used`, the name of the fastest attention, and `seconds` of each: the medians of a few interleaved executions.

    Measured in the training process: one layer of attention needs less memory than the step with all of them, so the
    run's peak memory is not changed by it. The choice is kept in `folder`: a resumed run must not choose again, for its
    losses would differ in the last bits.
    """
    path = folder / ATTENTION_FILE
    if not path.exists():
        timers = {name: AttentionTimer(run, settings) for name, run in attentions(settings.implementation).items()}
        rounds = [{name: timer() for name, timer in timers.items()} for _ in range(CHOICE_ROUNDS)]
        seconds = {name: statistics.median(times[name] for times in rounds) for name in timers}
        used = min(seconds, key=lambda name: seconds[name])
        path.write_text(json.dumps({"used": used, "seconds": seconds}) + "\n")
    return json.loads(path.read_text())


def create_optimizer(settings: Settings) -> optax.GradientTransformation:
    """AdamW with gradient clipping; linear warm-up, then a cosine down to zero."""
    peak = settings.learning_rate
    schedule = optax.warmup_cosine_decay_schedule(
        init_value=peak / (settings.warmup_steps + 1),
        peak_value=peak,
        warmup_steps=settings.warmup_steps,
        decay_steps=max(settings.steps, settings.warmup_steps + 1),
    )

    # Norm weights are not decayed.
    def is_matrix(tree: optax.Params) -> optax.Params:
        return jax.tree.map(lambda parameter: parameter.ndim > 1, tree)

    adamw = optax.adamw(schedule, b2=0.99, weight_decay=settings.weight_decay, mask=is_matrix)
    return optax.chain(optax.clip_by_global_norm(1.0), adamw)


class Run:
    """A run's compiled programs, state and files. Create it, `restore()` if resuming, then `train()` and `finish()`."""

    def __init__(self, folder: Path, settings: Settings) -> None:
        self.folder = folder
        self.settings = settings
        self.corpus = load_corpus()
        self.attention_choice = choose_attention(folder, settings)
        attention = attentions(settings.implementation)[self.attention_choice["used"]]
        self.ops = create_ops(settings.implementation, attention)
        self._attention_timer = AttentionTimer(attention, settings)
        self.graph, parameters = create_model(settings)
        self.parameters = parameter_count(parameters)
        self.optimizer = create_optimizer(settings)
        self.state = TrainState(parameters, self.optimizer.init(parameters))
        self.step = 0
        self.checkpoints = ocp.CheckpointManager(
            (folder / CHECKPOINT_FOLDER).absolute(), options=ocp.CheckpointManagerOptions(max_to_keep=1)
        )
        start = time.perf_counter()
        example = jax.ShapeDtypeStruct((settings.batch, settings.sequence_length + 1), jnp.int32)
        self._update = jax.jit(self._train_step, donate_argnums=0).lower(self.state, example).compile()
        self.compile_seconds = time.perf_counter() - start

    def _train_step(self, state: TrainState, batch: Array) -> tuple[TrainState, Array]:
        value, gradients = jax.value_and_grad(lambda p: loss(self.graph, self.ops, p, batch))(state.parameters)
        updates, optimizer = self.optimizer.update(gradients, state.optimizer, state.parameters)
        return TrainState(optax.apply_updates(state.parameters, updates), optimizer), value

    def restore(self) -> None:
        """Continues from the newest checkpoint, or from the start where there is none.

        Metrics of steps after it are dropped, for these will be run again.
        """
        step = self.checkpoints.latest_step()
        if step is not None:
            template = jax.tree.map(ocp.utils.to_shape_dtype_struct, self.state)
            self.state = self.checkpoints.restore(step, args=ocp.args.StandardRestore(template))
            self.step = step
        lines = [json.dumps(record) + "\n" for record in self.metrics() if record["step"] <= self.step]
        (self.folder / METRICS_FILE).write_text("".join(lines))

    def save(self) -> None:
        if self.checkpoints.latest_step() != self.step:
            self.checkpoints.save(self.step, args=ocp.args.StandardSave(self.state))
        self.checkpoints.wait_until_finished()

    def metrics(self) -> list[dict[str, Any]]:
        """One record a step: step (from 1), loss in nats a byte before that step's update, seconds.

        Some also have attention_seconds, one layer's, measured right after that step.
        """
        path = self.folder / METRICS_FILE
        if not path.exists():
            return []
        # A process that was killed may have left its last line unfinished.
        return [json.loads(line) for line in path.read_text().splitlines(keepends=True) if line.endswith("\n")]

    def train(self, stop: Callable[[], bool]) -> bool:
        """Runs the steps that are left, saving now and then and at the end; False if `stop` ended it earlier."""
        s = self.settings
        # In a log file every refresh of the bar is a line.
        interval = 0.2 if sys.stderr.isatty() else 10.0
        name = s.implementation
        bar = tqdm(total=s.steps, initial=self.step, desc=name, unit="step", mininterval=interval, ncols=100)
        with bar, (self.folder / METRICS_FILE).open("a", buffering=1) as log:
            while self.step < s.steps and not stop():
                batch = training_batch(self.corpus.train, s.seed, self.step, s.batch, s.sequence_length)
                start = time.perf_counter()
                self.state, value = self._update(self.state, batch)
                step_loss = float(value)  # waits for the step to end
                seconds = time.perf_counter() - start
                self.step += 1
                record = {"step": self.step, "loss": step_loss, "seconds": seconds}
                # Spread over the run, so that steps and attention see the same load on the machine.
                if self.step % max(1, s.steps // SHARE_SAMPLES) == 0:
                    record["attention_seconds"] = self._attention_timer()
                log.write(json.dumps(record) + "\n")
                rate = s.tokens_per_step / seconds
                bar.set_postfix_str(f"{rate:,.0f} tokens/s, loss {step_loss:.3f}", refresh=False)
                bar.update()
                if self.step % s.checkpoint_every == 0:
                    self.save()
        self.save()
        return self.step == s.steps

    def validate(self) -> float:
        """Mean loss in nats a byte over the fixed validation batches."""
        s = self.settings
        evaluate = jax.jit(lambda parameters, batch: loss(self.graph, self.ops, parameters, batch))
        batches = validation_batches(self.corpus.validation, s.validation_sequences, s.batch, s.sequence_length)
        return float(np.mean([evaluate(self.state.parameters, batch) for batch in batches]))

    def finish(self) -> None:
        """Validates, writes the result and the sample."""
        s = self.settings
        metrics = self.metrics()
        step_seconds = statistics.median(record["seconds"] for record in metrics)
        layer_seconds = statistics.median(r["attention_seconds"] for r in metrics if "attention_seconds" in r)
        result = {
            "implementation": s.implementation,
            "steps": self.step,
            "parameters": self.parameters,
            "tokens_per_second": s.tokens_per_step / step_seconds,
            "step_seconds": step_seconds,
            "compile_seconds": self.compile_seconds,
            "attention": self.attention_choice["used"],
            "attention_choice_seconds": self.attention_choice["seconds"],
            "attention_seconds": layer_seconds,
            "attention_share": s.layers * layer_seconds / step_seconds,
            "final_train_loss": metrics[-1]["loss"],
            "final_validation_loss": self.validate(),
            # The kernel counts KiB. Read before sampling, which is no part of training.
            "peak_memory_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        }
        if s.sample_bytes:
            text = generate(
                self.graph,
                self.ops,
                self.state.parameters,
                prompt=SAMPLE_PROMPT,
                length=s.sample_bytes,
                temperature=SAMPLE_TEMPERATURE,
                key=jax.random.key(s.seed),
            )
            (self.folder / SAMPLE_FILE).write_text(text.decode("utf-8", "replace"))
        # Last: its presence says that the run is complete.
        (self.folder / RESULT_FILE).write_text(json.dumps(result, indent=2) + "\n")
