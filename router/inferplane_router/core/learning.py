"""Recursive least squares with the guards that a control loop needs.

Problem: engines differ by model, accelerator and version, so their speeds must be learned while they serve.
Idea: linear models of few coefficients, updated with every observation, old ones forgotten slowly.
Trade-off: linear in hand-picked features; what they miss shows up in the residuals.
Invariants: coefficients stay within bounds around the prior; forgetting stops when observations carry no news
(otherwise the gain winds up and one outlier throws the model over); a single observation moves by a bounded amount.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

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
        if predicted <= 0 or not np.isfinite(observed) or observed < 0:
            return 1.0
        self.spread += 0.05 * (min(abs(observed - predicted) / predicted, settings.outlier) - self.spread)
        # Relative to the larger of both: long requests do not drown short ones, an outlier hardly counts.
        scale = max(predicted, observed)
        inputs, error = inputs / scale, (observed - predicted) / scale
        seen = self._covariance @ inputs
        gain = seen / (settings.forgetting * settings.noise + float(inputs @ seen))
        self._scaled = np.clip(self._scaled + gain * error, 1 / settings.reach, settings.reach)
        covariance = self._covariance - np.outer(gain, seen)
        forgotten = covariance / settings.forgetting
        self._covariance = forgotten if float(np.trace(forgotten)) < settings.most_gain * len(inputs) else covariance
        self.observations += 1
        return observed / predicted
