"""Recursive least squares with the guards that a control loop needs.

Problem: engines differ by model, accelerator and version, so their speeds must be learned while they serve.
Idea: linear models of few coefficients, updated with every observation, old ones forgotten slowly.
Trade-off: linear in hand-picked features; what they miss shows up in the residuals.
One kernel an observation: a finished request teaches three models, and a dozen of small array operations each would
cost more than its choice did.
Coefficients that only fit together (more for each request, less for its tokens) move together: where one of them is at
its bound, cutting it off alone would leave the other half of the move, which may lead away from what was observed, a
little further each time.  So the move is projected onto the bounds as the covariance measures distance.
Invariants: coefficients stay within bounds around the prior; an observation never takes the model further away from
itself; forgetting stops when observations carry no news (otherwise the gain winds up and one outlier throws the model
over); a single observation moves by a bounded amount.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from inferplane_engine.compiled import inline, kernel

Vector = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Learning:
    """How fast a model follows and how far it may go."""

    forgetting: float = 0.995
    """Weight of an observation relative to the one after it."""
    reach: float = 50.0
    """Coefficients stay within prior / reach and prior x reach."""
    noise: float = 0.05
    """Variance of relative errors that a right model would still make."""
    start_gain: float = 4.0
    """Variance of a coefficient relative to its prior at the start."""
    most_gain: float = 16.0
    """Forgetting stops where variance would exceed this."""
    outlier: float = 4.0
    """Errors beyond this many times the prediction do not widen the spread further."""


@inline
def _worst(values: Vector, reach: float) -> int:
    """Return which value is out of bounds the furthest; -1: none is."""
    worst, most = -1, 1e-9
    for i in range(values.shape[0]):
        out = max(values[i] - reach, 1.0 / reach - values[i])
        if out > most:
            worst, most = i, out
    return worst


@inline
def _keep_within(values: Vector, covariance: Vector, reach: float) -> None:
    """Put values on the bounds that they crossed, one after the other, and let the others follow as they covary."""
    n, free = values.shape[0], covariance.copy()
    for _ in range(n):
        at = _worst(values, reach)
        if at < 0 or free[at, at] <= 0.0:
            break
        held, own = free[at].copy(), free[at, at]
        back = (min(reach, max(1.0 / reach, values[at])) - values[at]) / own
        for i in range(n):
            values[i] += held[i] * back
            for j in range(n):
                free[i, j] -= held[i] * held[j] / own
    for i in range(n):
        values[i] = min(reach, max(1.0 / reach, values[i]))


@kernel
def _update(  # noqa: PLR0917  # kernels take positional arguments only
    scaled: Vector,
    covariance: Vector,
    inputs: Vector,
    error: float,
    noise: float,
    forgetting: float,
    most: float,
    reach: float,
) -> None:
    """Move `scaled` and `covariance` by one observation whose relative error is `error`; forget below `most`."""
    n = inputs.shape[0]
    seen = np.zeros(n)
    certainty = forgetting * noise
    for i in range(n):
        for j in range(n):
            seen[i] += covariance[i, j] * inputs[j]
        certainty += inputs[i] * seen[i]
    trace, moved, still_off = 0.0, scaled.copy(), error
    for i in range(n):
        gain = seen[i] / certainty
        moved[i] += gain * error
        for j in range(n):
            covariance[i, j] -= gain * seen[j]
        trace += covariance[i, i]
    if _worst(moved, reach) >= 0:
        _keep_within(moved, covariance, reach)
    for i in range(n):
        still_off -= inputs[i] * (moved[i] - scaled[i])
    if abs(still_off) <= abs(error):
        scaled[:] = moved
    if trace / forgetting < most:
        covariance /= forgetting


class LinearModel:
    """y = coefficients . features, learned online; features and coefficients are not negative."""

    def __init__(self, prior: tuple[float, ...], settings: Learning | None = None) -> None:
        self._settings = settings or Learning()
        self._prior = np.array(prior, np.float64)
        self._scaled = np.ones(len(prior), np.float64)  # coefficients relative to their priors: well conditioned
        self._covariance = np.eye(len(prior)) * self._settings.start_gain
        self.observations = 0
        self.spread = 0.3
        """Mean absolute error relative to the prediction."""

    @property
    def coefficients(self) -> Vector:
        return self._scaled * self._prior

    def predict(self, features: Vector) -> float:
        return float(self.coefficients @ features)

    def observe(self, features: Vector, observed: float) -> float:
        """Learn from one observation; return observed / predicted as it was before."""
        settings = self._settings
        inputs = features * self._prior
        predicted = float(self._scaled @ inputs)
        if predicted <= 0 or not math.isfinite(observed) or observed < 0:
            return 1.0
        self.spread += 0.05 * (min(abs(observed - predicted) / predicted, settings.outlier) - self.spread)
        # Relative to the larger of both: long requests do not drown short ones, an outlier hardly counts.
        scale = max(predicted, observed)
        inputs /= scale
        most = settings.most_gain * inputs.shape[0]
        error = (observed - predicted) / scale
        noise, forgetting, reach = settings.noise, settings.forgetting, settings.reach
        _update(self._scaled, self._covariance, inputs, error, noise, forgetting, most, reach)
        self.observations += 1
        return observed / predicted
