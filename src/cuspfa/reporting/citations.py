"""References to cite with a fit: the software with its version, and the papers of the methods."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from cuspfa.posterior.provenance import versions

if TYPE_CHECKING:
    from cuspfa.posterior.base import Posterior


class Reference(NamedTuple):
    """A reference as text and as a BibTeX entry."""

    key: str
    text: str
    bibtex: str


SOFTWARE = Reference(
    "cuspfa",
    "The cuspfa developers. cuspfa: Bayesian factor analysis under the cumulative shrinkage "
    "process. Version {version}.",
    """@misc{cuspfa,
  author = {{The cuspfa developers}},
  title  = {{cuspfa}: {Bayesian} factor analysis under the cumulative shrinkage process},
  note   = {Python package, version {version}}
}""",
)
PAPERS = (
    Reference(
        "legramanti2020variational",
        "Legramanti, S. (2020). Variational Bayes for Gaussian factor models under the cumulative "
        "shrinkage process. arXiv:2008.05310.",
        """@misc{legramanti2020variational,
  author        = {Legramanti, Sirio},
  title         = {Variational {Bayes} for {Gaussian} factor models under the cumulative
                   shrinkage process},
  year          = {2020},
  eprint        = {2008.05310},
  archiveprefix = {arXiv},
  doi           = {10.48550/arXiv.2008.05310}
}""",
    ),
    Reference(
        "legramanti2020cumulative",
        "Legramanti, S., Durante, D. & Dunson, D. B. (2020). Bayesian cumulative shrinkage for "
        "infinite factorizations. Biometrika 107(3), 745–752. doi:10.1093/biomet/asaa008.",
        """@article{legramanti2020cumulative,
  author  = {Legramanti, Sirio and Durante, Daniele and Dunson, David B.},
  title   = {{Bayesian} cumulative shrinkage for infinite factorizations},
  journal = {Biometrika},
  volume  = {107},
  number  = {3},
  pages   = {745--752},
  year    = {2020},
  doi     = {10.1093/biomet/asaa008}
}""",
    ),
)
MODEL_ERROR_PAPER = Reference(
    "wu2015quantifying",
    "Wu, H. & Browne, M. W. (2015). Quantifying adventitious error in a covariance structure as a "
    "random effect. Psychometrika 80(3), 571–600. doi:10.1007/s11336-015-9451-3.",
    """@article{wu2015quantifying,
  author  = {Wu, Hao and Browne, Michael W.},
  title   = {Quantifying adventitious error in a covariance structure as a random effect},
  journal = {Psychometrika},
  volume  = {80},
  number  = {3},
  pages   = {571--600},
  year    = {2015},
  doi     = {10.1007/s11336-015-9451-3}
}""",
)

ROBUST_PAPER = Reference(
    "lange1989robust",
    "Lange, K. L., Little, R. J. A. & Taylor, J. M. G. (1989). Robust statistical modeling using "
    "the t distribution. Journal of the American Statistical Association 84(408), 881–896. "
    "doi:10.1080/01621459.1989.10478852.",
    """@article{lange1989robust,
  author  = {Lange, Kenneth L. and Little, Roderick J. A. and Taylor, Jeremy M. G.},
  title   = {Robust statistical modeling using the $t$ distribution},
  journal = {Journal of the American Statistical Association},
  volume  = {84},
  number  = {408},
  pages   = {881--896},
  year    = {1989},
  doi     = {10.1080/01621459.1989.10478852}
}""",
)
COUNT_PAPERS = (
    PAPERS[1],
    Reference(
        "gopalan2015scalable",
        "Gopalan, P., Hofman, J. M. & Blei, D. M. (2015). Scalable recommendation with "
        "hierarchical Poisson factorization. Proceedings of the 31st Conference on Uncertainty in "
        "Artificial Intelligence, 326–335.",
        """@inproceedings{gopalan2015scalable,
  author    = {Gopalan, Prem and Hofman, Jake M. and Blei, David M.},
  title     = {Scalable recommendation with hierarchical {Poisson} factorization},
  booktitle = {Proceedings of the 31st Conference on Uncertainty in Artificial Intelligence},
  pages     = {326--335},
  year      = {2015}
}""",
    ),
)
"""Of a fit to counts."""


def made_with(posterior: Posterior) -> tuple[tuple[str, str], ...]:
    """Versions of the packages that made a fit; of those installed where they are not known."""
    return versions() if posterior.provenance is None else posterior.provenance.versions


def references(posterior: Posterior) -> list[Reference]:
    """What to cite with a fit."""
    version = dict(made_with(posterior)).get("cuspfa", dict(versions())["cuspfa"])
    software = Reference(*(part.replace("{version}", version) for part in SOFTWARE))
    found = [software, *PAPERS]
    if posterior.model_error:
        found.append(MODEL_ERROR_PAPER)
    if not posterior.tails.are_normal:
        found.append(ROBUST_PAPER)
    return found
