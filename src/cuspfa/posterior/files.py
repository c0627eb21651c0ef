"""Saved fits: which class reads which kind of file."""

from __future__ import annotations

from typing import Any

from cuspfa._typing import Array
from cuspfa.io import posterior_format
from cuspfa.io.posterior_format import AnyPath
from cuspfa.posterior.factorization import FactorizationPosterior
from cuspfa.posterior.latent import LatentPosterior
from cuspfa.posterior.sampled import SampledPosterior
from cuspfa.posterior.sampled_factorization import SampledFactorizationPosterior
from cuspfa.posterior.sampled_latent import SampledLatentPosterior
from cuspfa.posterior.variational import VariationalPosterior

AnyPosterior = VariationalPosterior | SampledPosterior | LatentPosterior | SampledLatentPosterior
AnyLoaded = AnyPosterior | FactorizationPosterior
POSTERIOR_CLASSES: dict[str, Any] = {
    one.kind: one
    for one in (
        VariationalPosterior,
        SampledPosterior,
        LatentPosterior,
        SampledLatentPosterior,
        FactorizationPosterior,
        SampledFactorizationPosterior,
    )
}
"""Classes of posteriors, by what a file says of its kind."""


def load_scores(path: AnyPath) -> Array | None:
    """The factor scores in a file, as they were given to `Posterior.save`.

    Parameters
    ----------
    path : str or os.PathLike
        The file.

    Returns
    -------
    ndarray (n, K) or None
        None if there are none in the file, which then can be shared more freely.

    Raises
    ------
    FileError
        As in `load`.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from cuspfa import CuspFactorAnalysis, datasets
    >>> from cuspfa.posterior import load_scores
    >>> X = datasets.simulate(100, 8, 2, random_state=0).X
    >>> model = CuspFactorAnalysis().fit(X)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "personality.cuspfa"
    ...     model.posterior_.save(path, scores=model.transform(X))
    ...     load_scores(path).shape
    (100, 2)
    """
    return posterior_format.read_scores(path, POSTERIOR_CLASSES)
