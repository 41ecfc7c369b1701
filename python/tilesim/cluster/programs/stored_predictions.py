"""Stores predictions of segments on disk; a step with equal segments reads them."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable
from contextlib import AbstractContextManager, closing, nullcontext
from pathlib import Path
from typing import Any

from ...analytic.estimate import device_of
from ...base.errors import UserError, user_error
from ...base.store import Store
from ...machine.machine import Machine
from .measured import MeasuredTimes
from .predicting import ClosedForms, Engine, Predicted

__all__ = ["StoredPredictions", "opened"]

#: version of the predictors' formulas; a change of results increments it
VERSION = 1


def opened(store: Any) -> AbstractContextManager[Store]:
    """Returns a context with the store, which closes it only if this function opened it."""
    return nullcontext(store) if isinstance(store, Store) else closing(Store(store))


def _facts(predictor: Any, device: Any) -> dict[str, Any]:
    """Returns the data that determine predictions besides the segment: predictor, tables, device parameters."""
    facts: dict[str, Any] = {"predictor": str(predictor.name), "version": VERSION}
    if isinstance(predictor, MeasuredTimes):
        facts["table"] = hashlib.sha256(Path(predictor.path).read_bytes()).hexdigest()
    elif not isinstance(predictor, (ClosedForms, Engine)):
        own = getattr(predictor, "version", None)
        if not isinstance(own, (str, int)):
            raise user_error(
                "a predictor with a store needs a version",
                place="predictor",
                value=str(predictor.name),
                allowed="`version`: a string or number; or store=None",
            )
        facts["own"] = str(own)
    machine = device if isinstance(device, Machine) else None
    if machine is None and isinstance(predictor, Engine):
        machine = Machine.load(device)
    if machine is not None:
        facts["machine"] = machine.core.hash()
    else:
        try:
            facts["device"] = repr(device_of(device))
        except UserError:
            facts["device"] = repr(device)
    return facts


class StoredPredictions:
    """Predictions of one predictor and device in a store."""

    def __init__(self, store: Store, predictor: Any, device: Any) -> None:
        """Stores the data on which predictions depend."""
        self.store, self.facts = store, json.dumps(_facts(predictor, device), sort_keys=True)

    def _key(self, segment: str) -> str:
        return Store.key(kind="cluster_segment", segment=segment, of=self.facts)

    def get(self, segments: Iterable[str]) -> dict[str, Predicted]:
        """Reads stored predictions."""
        keys = {self._key(segment): segment for segment in segments}
        return {keys[key]: _unpacked(value) for key, value in self.store.get(keys, _fits).items()}

    def put(self, predictions: dict[str, Predicted]) -> None:
        """Writes predictions."""
        self.store.put({self._key(segment): _packed(one) for segment, one in predictions.items()})


def _packed(prediction: Predicted) -> list[Any]:
    terms = {name: float(value) for name, value in prediction.terms.items()}
    return [
        float(prediction.seconds),
        terms,
        prediction.provenance,
        int(prediction.kernels),
        float(prediction.bytes),
        list(prediction.notes),
    ]


def _unpacked(value: list[Any]) -> Predicted:
    seconds, terms, provenance, kernels, moved, notes = value
    return Predicted(seconds, terms, provenance, kernels, moved, tuple(notes))


def _fits(value: Any) -> bool:
    if not isinstance(value, list) or list(map(type, value)) != [float, dict, str, int, float, list]:
        return False
    numbers = [value[0], value[4], *value[1].values()]
    return all(isinstance(one, (int, float)) and math.isfinite(one) for one in numbers) and all(
        isinstance(one, str) for one in value[5]
    )
