"""The tuning values of the search over K and of model selection, in one place."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class SearchSettings:
    """Thresholds, step lengths and numbers of draws. Differences of bounds are in nats."""

    # --- the walk over K ---
    patience: int = 3
    """Steps of a walk in a row that may fail to raise the bound before the walk ends."""
    dent_depth: float = 100.0
    """A step that ends so far below the best bound counts as one more failed step."""
    most_walks: int = 5
    """Walks in both directions, each followed by restarts, at most."""
    forget_beyond: float = 500.0
    """The state of a K whose bound is further than this below the best is not kept."""
    converge_within: float = 5.0
    """K with a bound so close to the best are run to a tighter tolerance before one is chosen."""
    converge_tol: float = 0.1
    """The tolerance of these runs, as a part of `tol`."""
    polish: float = 0.01
    """The tolerance of the last run of the chosen K, as a part of `tol`."""
    polish_after_surrogate: float = 10.0
    """Times this tolerance where a surrogate of the data is polished first."""
    slow_iterations: int = 15
    """A run of a given K that takes more iterations than this is followed by other starts."""
    surrogate_refreshes: int = 2
    """How often a surrogate of incomplete data is made anew before it is searched."""

    # --- the spectral start ---
    spectral_iterations: int = 6
    """Most principal factor iterations where K is to be found."""
    spectral_iterations_given_k: int = 2
    """Principal factor iterations where K is given."""
    fewest_leading: int = 12
    """Fewest eigenvalues that are compared with the edge of pure noise."""
    least_noise: float = 0.05
    """Smallest noise variance of a start, as a part of the variance of its column."""

    # --- restarts ---
    most_restarted: int = 3
    """K that are started anew from their neighbours, the best first, at most."""
    restart_within: float = 20.0
    """K with a bound so close to the best are started anew from their neighbours."""
    finish_neighbours_within: float = 40.0
    """Neighbours of the best K that were pruned so close to it are run to their end."""
    random_starts_within: float = 10.0
    """Random starts are made at neighbours of the best K whose bound is so close to it."""
    random_starts: int = 4
    """Random starts of each such neighbour; half as many are made at the best K itself."""
    random_starts_of_spike: int = 4
    """Further random starts of each such number under a finite spike, each run to its end."""
    most_dropped: int = 20
    """Factors of the best K, the weakest first, without each of which one less is tried."""
    hopeless_times: float = 10.0
    """These tries end after `patience` runs in a row that could not reach the best bound with so
    many times the growth that a run seldom exceeds."""
    most_directions: int = 100
    """Principal directions of the data that random starts are made of, at most."""

    # --- long steps ---
    large: int = 40
    """Number of factors above which a walk takes more than one at a time."""
    first_long_step: float = 1 / 20
    """The first step of a walk above `large`, as a part of K."""
    longest_step: float = 1 / 4
    """The longest step of a walk above `large`, as a part of K."""
    rough_part: float = 0.002
    """Tolerance of a run that begins a long step, as a part of what the last long step gained."""
    look_back: float = 1 / 10
    """The part of K over which the rise of the bound per factor is measured."""

    # --- the choice of K by evidence ---
    parsimony: float = 2.0
    """A further factor must raise the evidence by so much to be reported: odds of 7 to 1."""
    parsimony_errors: float = 2.0
    """Monte Carlo errors by which that rise must also be exceeded."""
    tie_errors: float = 3.0
    """Monte Carlo errors beyond which other draws would not have led to another choice. Up to there
    evidences are computed again with more draws."""
    least_error: float = 1e-6
    """Smallest Monte Carlo error of a difference of two evidences."""
    weight_draws: int = 1000
    """Draws of the errors of the evidences, over which the weights of K are averaged."""
    least_weight: float = 1e-3
    """Other K with a larger weight than this are kept for draws that average over K."""
    clear_edge: float = 1.5
    """Correlation left over is worth a warning if it is above so many times the edge of pure
    noise."""

    # --- which K are scored ---
    sure_errors: float = 2.0
    """Monte Carlo errors beyond which one evidence is surely below another."""
    bridge_behind: float = 5.0
    """Bridge sampling ends at a K whose evidence is surely so far below the best."""
    compare_errors: float = 4.0
    """Collapsed bounds that differ by fewer errors are computed again with more draws."""
    furthest: int = 6
    """Factors above the K of the best bound up to which K are scored by bridge sampling though the
    evidence does not rise."""
    hopeless_below: float = 10.0
    """Fewer factors are not scored if their bound is so far below: it is tighter than the best."""
    score_misses: int = 2
    """K in a row without a higher evidence that end the scoring by collapsed bounds."""
    allowance: float = 30.0
    """Nats per further factor that the bound of a K may be below the best for it to be scored by a
    collapsed bound."""
    allowance_growth: float = 5.0
    """Nats by which this allowance grows with K."""
    near_edge: float = 0.9
    """A further K is not scored if the largest eigenvalue that is left is below this part of the
    edge of pure noise."""
    heaviest: int = 64
    """Most factors that are scored: an evidence takes K⁴ numbers and K⁶ multiplications."""
    empty_signal: float = 0.05
    """A factor whose signal Σ_j μ_jh² E[1/σ²_j] is less than this is empty."""

    # --- how they are scored ---
    relinearizations: int = 3
    """How often the Gaussian rows nearest to the marginal density are found anew, where an error of
    the model is tolerated."""
    exact_sweep_size: int = 40_000
    """Size p·min(n, p) of the sufficient statistics up to which exact sweeps are quick."""
    most_bridged: int = 10
    """With more factors at the best bound collapsed bounds are used: a sweep takes K² small
    steps."""
    tall: int = 20
    """With more rows per column than this, K is scored only where the bound leaves it open."""
    fewest_bridged_rows: int = 15
    """With fewer rows collapsed bounds are used: short chains do not reach the posterior."""
    most_bridged_columns: float = 5.0
    """With more columns for each row collapsed bounds are used, for the same reason."""
    bridge_error_limit: float = 10.0
    """With an error above this, bridge sampling has failed and collapsed bounds are used."""
    bridge_draws: int = 64
    """First draws of bridge sampling; doubled as long as other draws might lead to another
    choice."""
    most_bridge_draws: int = 512
    """Draws up to which they are doubled."""
    add_at_error: float = 0.7
    """They are doubled for K whose error is above this part of the largest."""
    ratio_draws: int = 64
    """Draws at which the likelihood of incomplete data is compared with that of a surrogate."""
    fewest_draws: int = 20
    """Fewest draws of an evidence, however much work each is."""
    draws: int = 40
    """Draws of a first evidence."""
    more_draws: int = 160
    """Draws of an evidence where two K are close."""
    draw_cost: float = 2e8
    """Multiplications of all draws of an evidence, above which fewer than `draws` are made."""


DEFAULT_SEARCH = SearchSettings()
