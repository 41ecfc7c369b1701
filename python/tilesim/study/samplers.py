"""Samplers of tuning candidates; all start with the default mapping and the heuristic's mapping."""

from __future__ import annotations

import json
import random
import warnings
from collections.abc import Iterator
from typing import Any

from ..base.errors import user_error
from ..base.locks import QUIET
from ..mapping import Product, VectorKernel
from ..mapping.entries import Nest
from ..mapping.fields import fields_of

SAMPLERS = ("model", "random", "optuna")
TRIES = 64  # most draws per candidate, because many nests do not fit the scratchpad

Candidate = tuple[Nest, dict[str, Any]]


def _first_nests(kernel: Product | VectorKernel) -> list[Nest]:
    """Returns the first candidates: the default nest, and the heuristic's nest if different."""
    if isinstance(kernel, VectorKernel):
        return [kernel.nest]
    heuristic = dict(kernel.problem.heuristic())
    return [kernel.nest] if heuristic == kernel.nest else [kernel.nest, heuristic]


class ModelSampler:
    """Orders candidates by modelled cycles; with several contexts per core, a quarter of them split the kernel."""

    def __init__(self, kernel: Product | VectorKernel, budget: int) -> None:
        found, self.lower_bound = kernel.candidates(max(1, budget - 1))
        given = _first_nests(kernel)
        listed = [(nest, kernel.cost(nest)) for nest in given]
        listed += [(nest, cost) for nest, cost in found if nest not in given]
        divided = _split_over_contexts(kernel, budget // 4)
        self._left = listed[: budget - len(divided)] + divided

    def ask(self, count: int) -> list[Candidate]:
        """Returns the next candidates."""
        batch, self._left = self._left[:count], self._left[count:]
        return batch

    def tell(self, cycles: list[int | None]) -> None:
        """Receives simulated cycles of the last batch."""


def _split_over_contexts(kernel: Product | VectorKernel, count: int) -> list[Candidate]:
    """Returns the best nests of the kernel split over contexts, with bound 0 because contexts share units."""
    chosen: list[Candidate] = []
    for other in kernel.divided:
        most = count // len(kernel.divided)
        nests = [other.nest, *(nest for nest, _ in other.candidates(max(1, most))[0] if nest != other.nest)]
        chosen += [(nest, {**other.cost(nest), "bound_cycles": 0.0}) for nest in nests[:most]]
    return chosen


class DrawnSampler:
    """Draws distinct legal nests by a seeded generator."""

    def __init__(self, kernel: Product, seed: int) -> None:
        self.kernel = kernel
        self.space = kernel.problem.space()
        self.lower_bound = float(kernel.problem.search()["lower_bound"])
        self._seen: set[str] = set()
        self._draws = self._random_nests(random.Random(seed))
        self._given = _first_nests(kernel)

    def _random_nests(self, rng: random.Random) -> Iterator[Nest]:
        while True:
            yield self.space.sample(rng.getrandbits(60))

    def fresh(self, nest: Nest) -> bool:
        """Whether the nest is legal and new."""
        text = json.dumps(nest, sort_keys=True)
        if text in self._seen or not self.kernel.legal(nest)[0]:
            return False
        self._seen.add(text)
        return True

    def given(self, count: int) -> list[Candidate]:
        """Returns the first candidates."""
        taken, self._given = self._given[:count], self._given[count:]
        return [(nest, self.kernel.cost(nest)) for nest in taken if self.fresh(nest) or nest == self.kernel.nest]

    def ask(self, count: int) -> list[Candidate]:
        """Returns the next candidates; fewer at the end of the space."""
        batch = self.given(count)
        for _ in range(TRIES * count):
            if len(batch) == count:
                break
            nest = next(self._draws)
            if self.fresh(nest):
                batch.append((nest, self.kernel.cost(nest)))
        return batch

    def tell(self, cycles: list[int | None]) -> None:
        """Receives simulated cycles of the last batch."""


class OptunaSampler(DrawnSampler):
    """Lets Optuna propose nests in fixed batches, so that results do not depend on the workers."""

    def __init__(self, kernel: Product, seed: int) -> None:
        try:
            import optuna
        except ImportError:
            raise user_error(
                "optuna is not installed", place="sampler", suggestion="Install it: pip install 'tilesim[tune]'"
            ) from None
        super().__init__(kernel, seed)
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        with QUIET, warnings.catch_warnings():
            warnings.simplefilter("ignore")  # optuna calls constant_liar experimental
            self._study = optuna.create_study(sampler=optuna.samplers.TPESampler(seed=seed, constant_liar=True))
        self._failed = optuna.trial.TrialState.FAIL
        self._trials: list[Any] = []

    def _proposed(self, trial: Any) -> Nest:
        nest: Nest = {"unit": self.kernel.nest["unit"]}
        for field in fields_of("product").values():
            if field.space == "tiles":
                nest[field.name] = [
                    sizes[trial.suggest_int(f"tile_{name}", 0, len(sizes) - 1)]
                    for name, sizes in zip(self.kernel.names, getattr(self.space, field.space), strict=True)
                ]
            elif field.space == "pieces":
                continue  # derived from the tiles below
            elif field.space:
                choices = getattr(self.space, field.space)
                choice = choices[trial.suggest_categorical(field.name, list(range(len(choices))))]
                if field.form != "loop":
                    nest[field.name] = list(choice)
                elif choice >= 0:  # the field chooses a loop
                    nest[field.name] = choice
        choices = list(range(len(self.space.pieces)))
        return dict(self.space.cut(nest, trial.suggest_categorical("pieces", choices)))

    def ask(self, count: int) -> list[Candidate]:
        """Returns the next candidates; reports illegal ones to Optuna at once."""
        batch = self.given(count)
        self._trials = [None] * len(batch)
        for _ in range(TRIES * count):
            if len(batch) == count:
                break
            trial = self._study.ask()
            nest = self._proposed(trial)
            if not self.fresh(nest):
                self._study.tell(trial, state=self._failed)
                continue
            batch.append((nest, self.kernel.cost(nest)))
            self._trials.append(trial)
        return batch

    def tell(self, cycles: list[int | None]) -> None:
        """Reports simulated cycles of the last batch; pruned candidates count as failed."""
        for trial, count in zip(self._trials, cycles, strict=True):
            if trial is None:
                continue
            if count is None:
                self._study.tell(trial, state=self._failed)
            else:
                self._study.tell(trial, float(count))


def sampler_of(name: str, kernel: Product | VectorKernel, budget: int, seed: int) -> ModelSampler | DrawnSampler:
    """Creates the named sampler; vector kernels always use the model."""
    if name == "model" or isinstance(kernel, VectorKernel):
        return ModelSampler(kernel, budget)
    return OptunaSampler(kernel, seed) if name == "optuna" else DrawnSampler(kernel, seed)
