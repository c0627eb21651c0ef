"""What a page shows is what the library and the program compute."""

import json
import shlex
import zipfile
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from cuspfa import CuspFactorAnalysis, datasets, load
from cuspfa.app.analysis import Analysis, open_example, open_fit, open_table, settings_of_fit
from cuspfa.app.analysis_file import SavedAnalysis, is_analysis, read_analysis, write_analysis
from cuspfa.app.output_files import write_output
from cuspfa.app.page_settings import PageSettings, checked_settings, fit_options
from cuspfa.app.views import answer_part, report_part, table_part
from cuspfa.cli.app import run_program
from cuspfa.cli.provenance import command_of
from cuspfa.errors import DataError, FileError, InputError

PAPER = datasets.load_bfi(subset="paper")
NOISE = np.random.default_rng(0).bytes(10_000)
"""It does not become smaller."""
NAMES, ROWS = list(PAPER.feature_names[:10]), PAPER.data[:, :10]


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    """126 people, ten items with a few missing values, age, a text and a constant."""
    path = tmp_path_factory.mktemp("data") / "answers.csv"
    rows = np.round(ROWS + 4.0, 3)
    cells = [[f"{value:g}" for value in row] for row in rows]
    for i in range(0, 120, 12):
        cells[i][i % 10] = ""
    heads = [*NAMES, "age", "place", "one"]
    lines = [",".join(heads)]
    for i, row in enumerate(cells):
        lines.append(",".join([*row, str(20 + i % 50), f"town {i % 7}", "1"]))
    path.write_text("\n".join(lines))
    return path


@pytest.fixture(scope="module")
def analysis(file):
    return open_table(file, "answers.csv")


@pytest.fixture(scope="module")
def usual(analysis):
    return PageSettings(analysis.usual)


def test_columns_are_listed_with_what_is_made_of_them(analysis):
    lines = {one.name: one for one in analysis.columns()}
    assert list(lines) == [*NAMES, "age", "place", "one"]
    first = lines[NAMES[0]]
    assert first.selected
    assert first.selectable
    assert first.missing == pytest.approx(2 / 126)
    assert sum(first.bars) == 124
    assert not lines["age"].selected
    assert lines["age"].selectable
    assert "age" in lines["age"].kind
    for name in ("place", "one"):
        assert not lines[name].selected
        assert not lines[name].selectable
        assert lines[name].kind.startswith("left out: ")
    assert lines["place"].bars == ()
    assert analysis.usual == tuple(NAMES)


def test_bars_count_the_rows_by_value():
    analysis = open_example()
    line = analysis.columns()[0]
    column = datasets.load_bfi(subset="items").data[:, 0]
    assert line.bars == tuple(int(np.sum(column == value)) for value in range(1, 7))
    assert line.kind == "six-point item"


@pytest.mark.parametrize("rotation", [None, "varimax", "oblimin"])
def test_other_axes_are_those_of_a_fit_with_them(analysis, usual, file, rotation):
    analysis.fit(usual)  # on other axes
    posterior = analysis.fit(replace(usual, rotation=rotation))
    table = np.genfromtxt(file, delimiter=",", skip_header=1)[:, :10]
    model = CuspFactorAnalysis(rotation=rotation, random_state=0).fit(table)
    np.testing.assert_array_equal(posterior.rotated_solution.loadings, model.loadings_)
    own = str(posterior.summary(n_draws=60))
    assert own.splitlines()[0] == str(model.posterior_.summary(n_draws=60)).splitlines()[0]
    drawn, fitted = posterior.draw(20), model.posterior_.draw(20)
    np.testing.assert_array_equal(drawn.loadings, fitted.loadings)
    settings = posterior.provenance.settings
    assert settings.rotation == model.posterior_.provenance.settings.rotation


def test_axes_do_not_fit_again(analysis, usual, monkeypatch):
    analysis.fit(usual)
    monkeypatch.setattr(CuspFactorAnalysis, "_fit", None)
    other = replace(usual, rotation="quartimax")
    assert analysis.has_fit(other)
    assert analysis.fit(other).rotation.method == "quartimax"
    assert not analysis.has_fit(replace(usual, n_factors=2))
    with pytest.raises(TypeError):
        analysis.fit(replace(usual, n_factors=2))


@pytest.mark.parametrize(
    "changed",
    [
        {},
        {"rotation": None, "n_factors": 3},
        {"model_error": 0.05},
        {"columns": (*NAMES[:8], "age")},
    ],
)
def test_the_command_that_is_shown_gives_the_same_fit(
    analysis, usual, file, changed, tmp_path, monkeypatch, capsys
):
    posterior = analysis.fit(replace(usual, **changed))
    command = posterior.provenance.command
    assert command.startswith("cuspfa fit answers.csv")
    monkeypatch.chdir(file.parent)
    words = shlex.split(command)[1:]
    assert run_program([*words, "--quiet", "-o", str(tmp_path / "fit.cusp")]) == 0
    capsys.readouterr()
    again = load(tmp_path / "fit.cusp")
    np.testing.assert_array_equal(
        posterior.rotated_solution.loadings, again.rotated_solution.loadings
    )
    # The command of the saved fit has the name of its file too.
    known: Any = again.provenance
    assert replace(known, command=command) == posterior.provenance


def test_names_with_commas_and_quotes_come_through_the_command():
    every = ["a,b", 'say "hi"', "c", "age", "d e"]
    settings = PageSettings(("c", "age"), None)
    options = fit_options(settings, "x.csv", every, ["a,b", 'say "hi"', "c", "d e"], "-99,9")
    assert command_of(options) == (
        'cuspfa fit x.csv --exclude \'"a,b","say ""hi""",d e\' --include age --missing=-99,9'
    )


def test_the_answer_has_no_interval_before_there_are_any(analysis, usual):
    posterior = analysis.fit(usual)
    part = answer_part(posterior, usual, with_curve=False)
    axes = part["data"]["axes"][0]
    assert axes["lower"] is None
    assert part["n_factors"] == posterior.n_active
    assert part["headline"] == f"{posterior.n_active} factors can be told from chance"
    whole = answer_part(posterior, usual, with_curve=True)
    assert whole["headline"] == posterior.summary(n_draws=20).headline
    json.dumps(part, allow_nan=False)


def test_the_sections_are_those_of_the_report(analysis, usual, tmp_path):
    posterior = analysis.fit(usual)
    aligned = analysis.aligned(usual, posterior)
    part = report_part(posterior, usual, aligned)
    path = tmp_path / "report.html"
    posterior.report(path, draws=aligned.draws)
    text = path.read_text("utf-8")
    for section in ("answer", "factors", "correlations", "fit", "done"):
        begin = f'<section id="{section}"'
        of_page = begin + part["html"].partition(begin)[2].partition("</section>")[0]
        assert len(of_page) > 500
        assert of_page in text
    data = json.loads(text.partition('id="data">')[2].partition("</script>")[0])
    assert part["data"]["axes"][0] == data["axes"][0]
    assert part["data"]["tables"] == data["tables"]
    json.dumps(part, allow_nan=False)


def test_draws_are_made_once_for_all_axes(analysis, usual):
    first = analysis.aligned(usual, analysis.fit(usual))
    other = replace(usual, rotation="varimax")
    second = analysis.aligned(other, analysis.fit(other))
    assert first.draws is second.draws
    assert analysis.aligned(other, analysis.fit(other)) is second


def test_few_fits_are_kept(file):
    analysis = open_table(file, "answers.csv")
    names = analysis.usual
    made = [
        PageSettings(
            names[:4] if number % 2 else names[4:8],
            None,
            n_factors=1,
            model_error=round(0.001 * number, 3),
        )
        for number in range(40)
    ]
    for settings in made:
        analysis.fit(settings)
        assert analysis.has_fit(made[0])  # it may be needed next, and so is kept
    assert len(analysis._fits) == len(analysis._turned) == 20
    assert not analysis.has_fit(made[1])
    assert analysis.has_fit(made[-1])


def test_markup_in_names_is_text(tmp_path):
    path = tmp_path / "a.csv"
    X = datasets.simulate(60, 4, 1, random_state=0).X
    names = ["<script>1</script>", '"><img src=x onerror=1>', "b", "c"]
    quoted = ",".join('"' + name.replace('"', '""') + '"' for name in names)
    path.write_text("\n".join([quoted, *(",".join(f"{v:.3f}" for v in row) for row in X)]))
    analysis = open_table(path, "<b>a</b>.csv")
    settings = PageSettings(analysis.usual, None, n_factors=1, names=("<i>F</i>",))
    posterior = analysis.fit(settings)
    table = table_part(analysis, settings)
    answer = answer_part(posterior, settings, with_curve=False)
    for html in (table["html"], table["controls"], answer["html"]):
        assert "<script" not in html
        assert "<img" not in html
        assert "<i>" not in html
    assert "&lt;script&gt;" in table["html"]


def test_an_error_of_the_reader_is_an_error(tmp_path):
    path = tmp_path / "upload.csv"
    path.write_text("a,b\n1,2\n")
    with pytest.raises(DataError, match="1 row"):
        open_table(path, "few.csv")


@pytest.mark.parametrize(
    ("values", "said"),
    [
        (None, "an object"),
        ({"rotation": "sideways"}, "rotation"),
        ({"rotation": "target"}, "rotation"),
        ({"n_factors": -1}, "n_factors"),
        ({"n_factors": 1.5}, "n_factors"),
        ({"model_error": 5}, "model_error"),
        ({"model_error": "high"}, "model_error"),
        ({"model_error": float("nan")}, "model_error"),
        ({"likelihood": "weibull"}, "likelihood"),
        ({"columns": "A1"}, "columns"),
        ({"columns": [1]}, "columns"),
        ({"names": ["x" * 1000]}, "names"),
        ({"path": "/etc/passwd"}, "unknown entry 'path'"),
    ],
)
def test_wrong_settings_are_refused(values, said):
    with pytest.raises(InputError, match=said):
        checked_settings(values)


def test_settings_go_there_and_back():
    settings = PageSettings(("a", "b"), None, 3, 0.05, "auto", ("F", "G", "H"))
    assert checked_settings(json.loads(json.dumps(settings.as_json()))) == settings
    assert checked_settings({}) == PageSettings()


def test_columns_that_cannot_be_analysed_are_refused(analysis, usual):
    with pytest.raises(InputError, match="place"):
        analysis.fit(replace(usual, columns=(*usual.columns, "place")))


# --- files ---


def written(analysis, settings, tmp_path, what, **asked):
    posterior = analysis.fit(settings)
    path = tmp_path / "out"
    name = write_output({"what": what, "asked": asked}, path, analysis, settings, posterior)
    return path, name


def test_files_are_those_of_the_library(analysis, usual, tmp_path):
    posterior = analysis.fit(usual)
    path, name = written(analysis, usual, tmp_path, "report")
    assert name == "answers-report.html"
    posterior.report(
        tmp_path / "r.html",
        title="Factor analysis of answers.csv",
        draws=analysis.aligned(usual, posterior).draws,
    )
    assert path.read_bytes() == (tmp_path / "r.html").read_bytes()
    path, name = written(analysis, usual, tmp_path, "tables", kind="md", suppress="1")
    assert name == "answers-tables.md"
    draws = analysis.aligned(usual, posterior).draws
    assert path.read_text("utf-8") == posterior.apa_tables(suppress=0.3, draws=draws).to_markdown()
    path, name = written(analysis, usual, tmp_path, "scores")
    assert name == "answers-scores.csv"
    scores = np.genfromtxt(path, delimiter=",", skip_header=1)
    model = CuspFactorAnalysis.from_posterior(posterior.without_names())
    expected = model.transform(analysis.table.rows)
    np.testing.assert_allclose(scores, expected, rtol=1e-5, atol=1e-6)
    path, name = written(analysis, usual, tmp_path, "fit", statistics="0")
    assert name == "answers.cusp"
    assert load(path).statistics is None


@pytest.mark.parametrize(
    ("what", "asked"), [("passwd", {}), ("tables", {"kind": "../x"}), ("tables", {"kind": "exe"})]
)
def test_other_files_are_refused(analysis, usual, tmp_path, what, asked):
    with pytest.raises(InputError):
        written(analysis, usual, tmp_path, what, **asked)
    assert list(tmp_path.iterdir()) == []


def test_an_analysis_is_saved_and_opened_again(analysis, usual, file, tmp_path):
    settings = replace(usual, n_factors=2, names=("F, one", "G"))
    path, name = written(analysis, settings, tmp_path, "analysis")
    assert name == "answers.cuspa"
    assert is_analysis(path.read_bytes()[:64])
    saved = read_analysis(path)
    assert saved == SavedAnalysis("answers.csv", "", settings, file.read_bytes(), None)


def test_an_analysis_without_its_rows_has_the_fit_alone(analysis, usual, tmp_path):
    settings = replace(usual, n_factors=2, rotation="varimax", names=("F", "G"))
    path, _ = written(analysis, settings, tmp_path, "analysis", rows="0")
    saved = read_analysis(path)
    assert saved.table is None
    inside = tmp_path / "inside.cusp"
    inside.write_bytes(saved.fit)
    opened = open_fit(inside, "shared.cuspa")
    assert settings_of_fit(opened.loaded) == settings
    again = opened.fit(settings)
    posterior = analysis.fit(settings)
    np.testing.assert_array_equal(
        again.rotated_solution.loadings, posterior.rotated_solution.loadings
    )
    other = opened.fit(replace(settings, rotation="oblimin", names=()))
    expected = analysis.fit(replace(settings, rotation="oblimin", names=()))
    np.testing.assert_allclose(
        other.rotated_solution.loadings, expected.rotated_solution.loadings, atol=1e-12
    )
    with pytest.raises(InputError, match="no rows"):
        opened.scores(again)
    assert opened.columns() == []


def changed_archive(path, tmp_path, change):
    """The members of an analysis, changed, as another file."""
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    members, how = change(members)
    target = tmp_path / "changed.cuspa"
    with zipfile.ZipFile(target, "w", how) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return target


def with_settings(members, **changed):
    about = json.loads(members["analysis.json"])
    return members | {"analysis.json": json.dumps(about | changed).encode()}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda m: (m | {"../evil": b"x"}, 0), "other members"),
        (lambda m: (m | {"more": b"x"}, 0), "other members"),
        (lambda m: (m | {"table": b"0" * 10**6}, 8), "damaged or manipulated"),
        (lambda m: ({**m, "table": NOISE}, 8), "damaged or manipulated"),
        (lambda m: ({"analysis.json": b"["}, 0), "no JSON"),
        (lambda m: ({"analysis.json": b"[" * 10**5}, 0), "no JSON"),
        (lambda m: ({"analysis.json": b"[]"}, 0), "other entries"),
        (lambda m: (with_settings(m, name=1), 0), "other entries"),
        (lambda m: (with_settings(m, version=True), 0), "other entries"),
        (lambda m: (with_settings(m, format="x"), 0), "no analysis"),
        (lambda m: (with_settings(m, version=99), 0), "newer version"),
        (lambda m: (with_settings(m, settings={"rotation": "x"}), 0), "settings"),
        (lambda m: (m | {"fit.cusp": b"x"}, 0), "both a table and a fit"),
    ],
)
def test_a_manipulated_analysis_is_refused(analysis, usual, tmp_path, change, said):
    path, _ = written(analysis, usual, tmp_path, "analysis")
    with pytest.raises(FileError, match=said):
        read_analysis(changed_archive(path, tmp_path, change))


def test_an_analysis_with_a_member_twice_is_refused(tmp_path):
    path = tmp_path / "twice.cuspa"
    write_analysis(SavedAnalysis("a.csv", "", PageSettings(), b"a,b\n1,2\n", None), path)
    with zipfile.ZipFile(path, "a") as archive:
        for _ in range(2):
            with pytest.warns(UserWarning, match="Duplicate name"):
                archive.writestr("table", b"c\n3\n")
    with pytest.raises(FileError, match="other members"):
        read_analysis(path)


def test_an_analysis_with_a_password_is_refused(tmp_path):
    path = tmp_path / "secret.cuspa"
    write_analysis(SavedAnalysis("a.csv", "", PageSettings(), b"a,b\n1,2\n", None), path)
    raw = bytearray(path.read_bytes())
    for begins, at in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        raw[raw.rindex(begins) + at] |= 1
    path.write_bytes(raw)
    with pytest.raises(FileError, match="encrypted"):
        read_analysis(path)


def test_a_cut_analysis_is_refused(analysis, usual, tmp_path):
    path, _ = written(analysis, usual, tmp_path, "analysis")
    raw = path.read_bytes()
    for size in (10, 100, len(raw) // 2, len(raw) - 1):
        path.write_bytes(raw[:size])
        with pytest.raises(FileError):
            read_analysis(path)


def test_a_small_file_cannot_say_that_it_is_large(tmp_path):
    path = tmp_path / "bomb.cuspa"
    about = SavedAnalysis("a.csv", "", PageSettings(), b"a,b\n" * 10, None)
    write_analysis(about, path)
    raw = bytearray(path.read_bytes())
    place = raw.rindex(b"PK\x01\x02")
    raw[place + 20 : place + 28] = b"\xff\xff\xff\x7f" * 2  # the sizes of the table
    path.write_bytes(raw)
    with pytest.raises(FileError):
        read_analysis(path)


def test_a_fit_of_counts_says_what_to_do(tmp_path):
    from cuspfa import CuspPoissonFactorization

    rng = np.random.default_rng(0)
    path = tmp_path / "upload"
    model = CuspPoissonFactorization(n_factors=1, random_state=0).fit(rng.poisson(3.0, (40, 5)))
    model.posterior_.save(path)
    with pytest.raises(InputError, match="cuspfa report counts.cusp"):
        open_fit(path, "counts.cusp")


def test_the_example_is_known_by_its_command():
    analysis = Analysis("", open_example().file)
    options = analysis.options(PageSettings(analysis.usual, None))
    assert command_of(options) == "cuspfa fit --example bfi"
