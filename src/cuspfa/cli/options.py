"""Options of the commands, each declared once: cyclopts parses them, and the commands read them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args

from cyclopts import Parameter

if TYPE_CHECKING:
    from cuspfa.data.tables.dialect import Reading
    from cuspfa.data.tables.triangles import MatrixKind

DECIMAL_SIGNS = {"point": ".", "comma": ","}
"""The words of --decimal, and the signs that they stand for."""


def _whole_number(type_: Any, tokens: Sequence[Any]) -> int:
    try:
        return int(tokens[0].value)
    except ValueError:
        raise ValueError(f"must be a whole number. Got {tokens[0].value!r} instead.") from None


def _real_number(type_: Any, tokens: Sequence[Any]) -> float:
    try:
        return float(tokens[0].value)
    except ValueError:
        raise ValueError(f"must be a number. Got {tokens[0].value!r} instead.") from None


def _any_case(type_: Any, tokens: Sequence[Any]) -> str:
    """The word in small letters, if that is one of the words of the option."""
    given = str(tokens[0].value)
    words = [one for part in (type_, *get_args(type_)) for one in get_args(part)]
    known = [one for one in words if isinstance(one, str)]
    word = given.lower()
    if known and word not in known:
        word = word.replace("-", "_")
    if known and word not in known:
        raise ValueError(f"must be one of {', '.join(known)}. Got {given!r} instead.")
    return word


def choice_option(text: str) -> Parameter:
    """An option that takes one of some words; capital letters do not matter."""
    return Parameter(converter=_any_case, help=text)


def _model_error(type_: Any, tokens: Sequence[Any]) -> float | Literal["auto"]:
    if str(tokens[0].value).lower() == "auto":
        return "auto"
    try:
        return float(tokens[0].value)
    except ValueError:
        raise ValueError(f"must be a number or auto. Got {tokens[0].value!r} instead.") from None


def _slab_names(type_: Any, tokens: Sequence[Any]) -> list[str]:
    words = [word.strip().lower() for one in tokens for word in str(one.value).split(",")]
    known = get_args(SlabName)
    wrong = [word for word in words if word not in known]
    if wrong:
        raise ValueError(f"must be one or more of {', '.join(known)}. Got {wrong[0]!r} instead.")
    return list(dict.fromkeys(words))


def whole_option(text: str) -> Parameter:
    """An option that takes a whole number."""
    return Parameter(converter=_whole_number, help=text)


def number_option(text: str) -> Parameter:
    """An option that takes a number."""
    return Parameter(converter=_real_number, help=text)


def flag_option(text: str, name: str | None = None) -> Parameter:
    """An option without a value."""
    return Parameter(name=name, negative="", show_default=False, help=text)


def output_option(text: str) -> Parameter:
    """The file that a command writes."""
    return Parameter(name=("--output", "-o"), help=text)


RotationName = Literal[
    "varimax", "quartimax", "equamax", "promax", "oblimin", "quartimin", "geomin"
]
ModelName = Literal["factor-analysis", "poisson-factorization"]
LikelihoodOption = Literal[
    "gaussian", "ordinal", "normal_scores", "poisson", "negative_binomial", "auto"
]
FactorsGiven = Annotated[int | None, whole_option("Number of factors. Default: inferred.")]
AxesGiven = Annotated[
    RotationName | None,
    choice_option(
        "Axes of the factors: uncorrelated (varimax, quartimax, equamax) or correlated "
        "(promax, oblimin, quartimin, geomin). Default: principal axes."
    ),
]


@dataclass(frozen=True, kw_only=True)
class ReadingOptions:
    """How a table is read."""

    missing: Annotated[
        list[str] | None,
        Parameter(
            negative="",
            allow_leading_hyphen=True,
            help="Codes for missing values, with commas between them, such as -99,999.",
        ),
    ] = None
    header: Annotated[
        bool | None,
        Parameter(help="Whether the first row has the column names. Default: detected."),
    ] = None
    decimal: Annotated[
        Literal["point", "comma"] | None,
        choice_option("The decimal sign. Default: detected."),
    ] = None

    sheet: Annotated[
        str | None,
        Parameter(help="Sheet of a workbook, by name or number. Default: the first with cells."),
    ] = None

    order: Annotated[
        list[str] | None,
        Parameter(
            negative="",
            help="Words of answers from low to high, such as never,sometimes,often: columns of "
            "these words become numbers. May be repeated.",
        ),
    ] = None

    def reading(self) -> Reading:
        """The options as arguments of the library's reader."""
        from cuspfa._utils.spelling import as_option
        from cuspfa.data.tables.answers import as_order
        from cuspfa.data.tables.dialect import Reading

        sign = None if self.decimal is None else DECIMAL_SIGNS[self.decimal]
        codes = (word.strip() for text in self.missing or () for word in text.split(","))
        return Reading(
            self.header,
            sign,
            tuple(filter(None, codes)),
            as_option,
            self.sheet,
            as_order([one.split(",") for one in self.order or ()], "--order"),
        )


@dataclass(frozen=True, kw_only=True)
class ShowOptions:
    """What factors and variables are called."""

    names: Annotated[
        str | None,
        Parameter(
            help="Names of the factors, in their order, with commas between them, such as "
            "Neuroticism,Extraversion."
        ),
    ] = None
    reverse: Annotated[
        list[str] | None,
        Parameter(
            negative="",
            help="Factors to show with the opposite sign: numbers or names, with commas.",
        ),
    ] = None
    wording: Annotated[
        Path | None,
        Parameter(
            help="File with the name of a column and its wording in each row, as CSV or workbook. "
            "Default: the labels of the data's file."
        ),
    ] = None


@dataclass(frozen=True, kw_only=True)
class DataOptions:
    """A table, how it is read, and which of its columns are analysed."""

    data: Annotated[str | None, Parameter(parse=False)] = None
    """The file, - for standard input, or None for an example: an argument, not an option."""
    example: Annotated[
        Literal["bfi"] | None,
        choice_option("Data that come with cuspfa: 25 personality items."),
    ] = None
    columns: Annotated[
        list[str] | None,
        Parameter(
            negative="",
            help="Columns to analyse: names with commas between them, ranges of names (x1-x9, "
            "A1:O5), patterns (A*), or numbers from 1 on, such as 3-10. May be repeated. Default: "
            "all columns of numbers.",
        ),
    ] = None
    exclude: Annotated[
        list[str] | None,
        Parameter(negative="", help="Columns to leave out, written in the same way."),
    ] = None
    include: Annotated[
        list[str] | None,
        Parameter(
            negative="",
            help="Columns to analyse although they look like age, sex, grade, an identifier, a "
            "target, a weight or a year.",
        ),
    ] = None
    id_column: Annotated[
        str | None,
        Parameter(name="--id", help="Column with the names of the rows. It is not analysed."),
    ] = None
    read: Annotated[ReadingOptions, Parameter(name="*")] = ReadingOptions()


@dataclass(frozen=True, kw_only=True)
class MomentsOptions(DataOptions):
    """Data that need not be rows in memory: a table that is read by blocks, or a matrix."""

    memory_limit: Annotated[
        str | None,
        Parameter(
            help="Memory limit, such as 4GB. The table is then read by blocks. Folders, and files "
            "that do not fit into memory, are read so in any case."
        ),
    ] = None
    correlation: Annotated[
        bool,
        flag_option("The file is a correlation matrix, or a triangle of one, of --n rows."),
    ] = False
    covariance: Annotated[
        bool,
        flag_option("The file is a covariance matrix, or a triangle of one, of --n rows."),
    ] = False
    n: Annotated[
        int | None,
        whole_option("Number of rows that a matrix was made of. Default: its row named n."),
    ] = None
    means: Annotated[
        str | None,
        Parameter(
            allow_leading_hyphen=True, help="Means of the variables of a matrix, with commas."
        ),
    ] = None
    sds: Annotated[
        str | None,
        Parameter(help="Standard deviations of the variables of a matrix, with commas."),
    ] = None

    @property
    def matrix_kind(self) -> MatrixKind | None:
        """What the file is, if it is a matrix."""
        if self.correlation:
            return "correlation"
        return "covariance" if self.covariance else None


@dataclass(frozen=True, kw_only=True)
class ModelOptions(DataOptions):
    """Data and the model that is fitted to them, by a command that finds the number of factors."""

    method: Annotated[str, choice_option("The engine: variational or gibbs.")] = "variational"
    standardize: Annotated[
        bool,
        Parameter(show_default=False, help="Scale each column to unit variance first (default)."),
    ] = True
    max_factors: Annotated[
        int | None,
        whole_option(
            "Largest number of factors in the search. Default: 100, or fewer if so many cannot be "
            "identified from the columns."
        ),
    ] = None
    max_time: Annotated[
        float | None,
        Parameter(
            converter=_real_number,
            help="Time limit of the search or the sampler in seconds. What was found by then is "
            "kept. Default: no limit.",
        ),
    ] = None
    model_error: Annotated[
        float | Literal["auto"],
        Parameter(
            converter=_model_error,
            help="How far the population may be from a factor model, in units of RMSEA, such as "
            "0.05: factors that an error of this size could produce are not counted. auto learns "
            "it with the number of factors.",
        ),
    ] = 0.0
    robust: Annotated[
        bool,
        flag_option(
            "Rows that are far from the others count less (t distribution). For complete data "
            "with more rows than columns."
        ),
    ] = False
    seed: Annotated[
        int,
        whole_option("Seed of the random numbers. A variational fit does not depend on it."),
    ] = 0
    as_json: Annotated[
        bool,
        flag_option("Print the result as JSON. All else goes to standard error.", "--json"),
    ] = False
    quiet: Annotated[
        bool,
        flag_option(
            "Print only the headline. Warnings, and what was left out, go to standard error."
        ),
    ] = False


@dataclass(frozen=True, kw_only=True)
class FitOptions(ModelOptions, MomentsOptions):
    """The command line of `cuspfa fit`."""

    model: Annotated[
        ModelName,
        choice_option(
            "factor-analysis, or poisson-factorization of counts: words in texts, genes in cells, "
            "species on plots."
        ),
    ] = "factor-analysis"
    exposure: Annotated[
        str | None,
        Parameter(
            help="Column with the exposure of each row, such as the area of a plot or the length "
            "of a text. For poisson-factorization; not analysed."
        ),
    ] = None
    layer: Annotated[
        str | None, Parameter(help="Layer of an h5ad file with the counts. Default: X.")
    ] = None
    transpose: Annotated[
        bool,
        flag_option("The rows of a sparse matrix (.mtx, .npz) are variables, not observations."),
    ] = False
    output: Annotated[
        Path | None,
        output_option("Save the fit to this file, such as fit.cusp."),
    ] = None
    report: Annotated[
        Path | None,
        Parameter(help="Write an HTML report to this file, such as report.html."),
    ] = None
    loadings: Annotated[
        Path | None,
        Parameter(help="Write loadings and communalities with 95 % intervals to this CSV file."),
    ] = None
    tables: Annotated[
        Path | None,
        Parameter(
            help="Write tables for a paper to this file, such as tables.docx: .docx, .tex, .md, "
            ".html or .xlsx."
        ),
    ] = None
    no_statistics: Annotated[
        bool,
        flag_option(
            "Save the fit without cross-products or rotated rows of the data, from which rows "
            "may be guessed. Measures of fit are then missing, and intervals are approximate."
        ),
    ] = False
    likelihood: Annotated[
        LikelihoodOption,
        choice_option(
            "What the columns hold: gaussian (measurements), ordinal (ordered categories, such as "
            "answers; two make a column binary), normal_scores (measurements of which only the "
            "order counts), poisson or negative_binomial (counts, by their log rates) or auto, "
            "which decides for each column and says so."
        ),
    ] = "gaussian"
    offset: Annotated[
        str | None,
        Parameter(
            help="Offsets of the log rates of counts: library_size (the logarithm of the sum of "
            "the counts of a row) or a column, which has numbers on the log scale, such as the "
            "logarithm of an area."
        ),
    ] = None
    ordinal: Annotated[
        list[str] | None,
        Parameter(
            negative="",
            help="Columns that are ordinal whatever --likelihood says, as in --columns.",
        ),
    ] = None
    link: Annotated[Literal["probit", "logit"], choice_option("Link of ordinal columns.")] = (
        "probit"
    )
    factors: FactorsGiven = None
    rotation: AxesGiven = None
    no_checks: Annotated[
        bool,
        flag_option(
            "Do not look for outlying rows and pairs of columns that have a factor to themselves."
        ),
    ] = False
    show: Annotated[ShowOptions, Parameter(name="*")] = ShowOptions()


@dataclass(frozen=True, kw_only=True)
class SelectOptions(ModelOptions):
    """The command line of `cuspfa select-n-factors`."""

    numbers: Annotated[
        str | None,
        Parameter(
            help="Numbers of factors to try on held-out rows, such as 1-8 or 1,2,5. Default: up to "
            "three more than the model finds."
        ),
    ] = None
    folds: Annotated[int, whole_option("Parts of the rows, each held out once.")] = 5
    splits: Annotated[int, whole_option("Times the rows are split into two random halves.")] = 10
    jobs: Annotated[
        int | None,
        whole_option("Processes for the fits; -1 uses all cores. Default: one."),
    ] = None


@dataclass(frozen=True, kw_only=True)
class CongruenceOptions(ModelOptions):
    """The command line of `cuspfa congruence`."""

    by: Annotated[
        str | None,
        Parameter(
            help="Column with the groups of the rows, such as gender. Each group is fitted by "
            "itself, and each pair of groups is compared."
        ),
    ] = None
    factors: FactorsGiven = None
    rotation: AxesGiven = None
    procrustes: Annotated[
        bool,
        Parameter(
            show_default=False,
            help="Put the second fit on the axes of the first (default), or compare the factors as "
            "each fit has them.",
        ),
    ] = True


SlabName = Literal["default", "gaussian", "inverse-gamma", "empirical-bayes"]


@dataclass(frozen=True, kw_only=True)
class PriorOptions(ModelOptions, MomentsOptions):
    """The command line of `cuspfa prior-sensitivity`."""

    alpha: Annotated[
        str | None,
        Parameter(
            help="Expected numbers of factors before the data are seen, with commas. Default: "
            "1,5,20."
        ),
    ] = None
    slab: Annotated[
        list[SlabName] | None,
        Parameter(
            negative="",
            converter=_slab_names,
            help="Distributions of the loadings, with commas: default, gaussian (variance 1, of "
            "the variational paper), inverse-gamma (2, 2, of the Biometrika paper) or "
            "empirical-bayes. Default: each of them.",
        ),
    ] = None
    spike: Annotated[
        str | None,
        Parameter(
            help="Variances of the loadings of an inactive factor, with commas; 0 is a spike at "
            "zero, the default. Others need --slab gaussian or inverse-gamma."
        ),
    ] = None
