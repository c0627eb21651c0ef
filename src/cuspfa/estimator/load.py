"""Read a saved fit, with the searches that its posterior may ask for."""

from __future__ import annotations

from cuspfa.inference.variational.error_curve import model_error_curve
from cuspfa.io import posterior_format
from cuspfa.io.posterior_format import AnyPath
from cuspfa.posterior.files import POSTERIOR_CLASSES, AnyLoaded


def load(path: AnyPath) -> AnyLoaded:
    """Read a posterior that `Posterior.save` wrote.

    Nothing in the file is run, and nothing but this one file is read or written, whoever made it.

    Parameters
    ----------
    path : str or os.PathLike
        The file.

    Returns
    -------
    Posterior or FactorizationPosterior
        Its draws are those of the posterior that was saved, seed by seed.

    Raises
    ------
    FileError
        The file is of another kind, damaged, cut off, changed, or written by a newer cuspfa.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from cuspfa import CuspFactorAnalysis, datasets, load
    >>> X = datasets.simulate(100, 8, 2, random_state=0).X
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "personality.cuspfa"
    ...     CuspFactorAnalysis().fit(X).posterior_.save(path)
    ...     load(path)
    <VariationalPosterior of 2 factors, 100 rows, 8 columns>
    """
    posterior: AnyLoaded = posterior_format.read_posterior(path, POSTERIOR_CLASSES)
    return posterior.with_curve_maker(model_error_curve)
