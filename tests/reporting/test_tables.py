"""Tables for a paper: values by literal calculations, and files by readers of their own."""

import re
import shutil
import subprocess
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import cuspfa
from cuspfa import CuspFactorAnalysis, datasets, load
from cuspfa.errors import InputError
from cuspfa.reporting.summary import summary_draws
from cuspfa.reporting.tables.layout import Number, number_text

docx, openpyxl = pytest.importorskip("docx"), pytest.importorskip("openpyxl")

ITEMS = ["N1", "N2", "N3", "C1", "C2", "C4", "O1", "O3", "O5"]
HOSTILE = [
    "=1+2",
    "a|b",
    "50 % & $x_1^2$ #1",
    "<script>x</script>",
    r"\input{x} {a} ~",
    "[0] *star*",
    "-0.5",
    "\u65e5\u672c \u00e9 \u201cq\u201d",
    "a`b'c\"d \x07 -- @x",
]
"""Names with what is special to a format, a control character among them."""


@pytest.fixture(scope="module")
def posterior():
    frame = datasets.load_bfi(subset="items", as_frame=True).data[ITEMS].dropna().head(400)
    return CuspFactorAnalysis(n_factors=3, rotation="oblimin").fit(frame).posterior_


@pytest.fixture(scope="module")
def named(posterior):
    found = posterior.with_factor_names(["Neuroticism", "Conscientiousness", "Openness"])
    return found.with_wording(dict(zip(ITEMS, HOSTILE, strict=True)))


@pytest.fixture(scope="module")
def tables(posterior):
    return posterior.apa_tables(suppress=0.3)


# --- values ---


def omega_of(draws, number):
    loadings = draws.loadings[number]
    return loadings @ loadings.T + np.diag(draws.noise_variance[number])


def test_alpha_and_omega_are_those_of_each_draw(posterior, tables):
    """α = k/(k−1) (1 − trace/sum) of the keyed correlations; ω is common variance by variance."""
    draws = summary_draws(posterior)
    loadings = posterior.rotated_solution.loadings
    own_factor = np.abs(loadings).argmax(axis=1)
    for h, factor in enumerate(tables.factors):
        members = np.flatnonzero(own_factor == h)
        assert factor.n_items == len(members) == 3
        sign = np.sign(loadings[members, h])
        assert factor.reversed_items == tuple(np.array(ITEMS)[members][sign < 0])
        alphas, omegas = [], []
        for number in range(len(draws)):
            omega = omega_of(draws, number)
            sd = np.sqrt(np.diag(omega))
            keyed = (omega / np.outer(sd, sd))[np.ix_(members, members)] * np.outer(sign, sign)
            alphas.append(3 / 2 * (1 - np.trace(keyed) / keyed.sum()))
            noise = draws.noise_variance[number] / sd**2
            omegas.append((keyed.sum() - noise[members].sum()) / keyed.sum())
        for found, values in ((factor.alpha, alphas), (factor.omega, omegas)):
            expected = np.quantile(values, [0.5, 0.025, 0.975])
            np.testing.assert_allclose(found, expected, atol=1e-9)
        # Against the data themselves: pandas' correlations of the same people.
        assert factor.alpha.lower < sample_alpha(posterior, members, sign) < factor.alpha.upper
        assert factor.omega.value >= factor.alpha.value


def sample_alpha(posterior, members, sign):
    frame = datasets.load_bfi(subset="items", as_frame=True).data[ITEMS].dropna().head(400)
    keyed = frame.corr().to_numpy()[np.ix_(members, members)] * np.outer(sign, sign)
    return len(members) / (len(members) - 1) * (1 - np.trace(keyed) / keyed.sum())


def test_a_scale_without_its_keys_has_another_alpha(tables):
    """A negative control: O5 is reversed, and without reversal the scale makes no sense."""
    openness = next(one for one in tables.factors if "O5" in one.reversed_items or one.n_items == 3)
    assert openness.alpha.value > 0.3
    frame = datasets.load_bfi(subset="items", as_frame=True).data[["O1", "O3", "O5"]].dropna()
    raw = frame.head(400).corr().to_numpy()
    assert 3 / 2 * (1 - 3 / raw.sum()) < 0.2


def test_loadings_communalities_and_shares(posterior, tables):
    draws = summary_draws(posterior)
    by_name = {row.name: row for row in tables.items}
    common = np.array(
        [1 - draws.noise_variance[i] / np.diag(omega_of(draws, i)) for i in range(len(draws))]
    )
    aligned = posterior.align(draws=draws)
    for j, name in enumerate(ITEMS):
        row = by_name[name]
        values = [one.value for one in row.loadings]
        np.testing.assert_array_equal(values, posterior.rotated_solution.loadings[j])
        np.testing.assert_allclose(
            row.communality, np.quantile(common[:, j], [0.5, 0.025, 0.975]), atol=1e-9
        )
        ends = np.quantile(aligned.loadings[:, j], [0.025, 0.975], axis=0)
        np.testing.assert_allclose([one.lower for one in row.loadings], ends[0], atol=1e-6)
        np.testing.assert_allclose([one.upper for one in row.loadings], ends[1], atol=1e-6)
    phi = np.quantile(aligned.factor_correlations, [0.025, 0.975], axis=0)
    np.testing.assert_allclose(tables.correlations[1][0][1:], phi[:, 1, 0], atol=1e-12)
    total = np.quantile(common.mean(axis=1), [0.5, 0.025, 0.975])
    np.testing.assert_allclose(tables.explained, total, atol=1e-9)
    shares = posterior.interval("explained_variance_ratio", draws=draws)
    assert [one.share.lower for one in tables.factors] == pytest.approx(shares.lower.tolist())


def test_items_are_grouped_and_sorted(posterior, tables):
    own_factors = [row.factor for row in tables.items]
    assert own_factors == sorted(own_factors)
    for h in set(own_factors):
        sizes = [abs(row.loadings[h].value) for row in tables.items if row.factor == h]
        assert sizes == sorted(sizes, reverse=True)
    for row in tables.items:
        assert max(range(3), key=lambda h: abs(row.loadings[h].value)) == row.factor
    assert [row.name for row in posterior.apa_tables(sort=False).items] == ITEMS


def test_the_interval_has_its_probability(posterior, tables):
    narrow = posterior.apa_tables(prob=0.5)
    assert narrow.factors[0].alpha.lower > tables.factors[0].alpha.lower
    assert "50% credible intervals" in narrow.to_markdown()


def test_a_frame_has_all_loadings(posterior, tables):
    frame = tables.to_frame()
    assert len(frame) == 9
    assert {"Factor 2", "Factor 2 lower", "communality upper"} <= set(frame.columns)


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (Number(0.634), ".63"),
        (Number(-0.126), "−.13"),
        (Number(-0.004), ".00"),
        (Number(0.999), "1.00"),
        (Number(-1.02), "−1.02"),
        (Number(0.0304, 3), ".030"),
        (Number(0.6, 1, leading=True), "0.6"),
        (Number(0.0912, 1, percent=True), "9.1"),
        (Number(0.0012, 1, percent=True), "0.1"),
        (Number(10.5, 1, leading=True), "10.5"),
        (Number(185.0, 0), "185"),
    ],
)
def test_numbers_in_apa_style(number, text):
    assert number_text(number) == text


# --- formats, by readers that do not know the writers ---


def expected_rows(posterior, suppress):
    """Names and numbers of Table 1, in its order, from the loadings alone."""
    loadings = posterior.rotated_solution.loadings
    own_factor = np.abs(loadings).argmax(axis=1)
    order = sorted(range(9), key=lambda j: (own_factor[j], -abs(loadings[j, own_factor[j]])))
    for j in order:
        texts = [f"{value:.2f}".replace("0.", ".").replace("-", "−") for value in loadings[j]]
        yield (
            ITEMS[j],
            [
                text if abs(value) >= suppress else ""
                for text, value in zip(texts, loadings[j], strict=True)
            ],
        )


def shown(text):
    """A hostile text as a reader sees it: on one line, without control characters."""
    return " ".join("".join(c for c in text if c.isprintable()).split())


def test_word(named, tmp_path):
    path = tmp_path / "t.docx"
    named.apa_tables(suppress=0.3).write(path)
    document = docx.Document(str(path))
    first, second, third, fourth = document.tables
    rows = [[cell.text for cell in row.cells] for row in first.rows]
    assert rows[0] == ["Item", "Wording", "1", "2", "3", "h²"]
    body = [row for row in rows[1:] if not row[0].startswith("Factor ")]
    groups = [row[0] for row in rows[1:] if row[0].startswith("Factor ")]
    assert groups == ["Factor 1: " + named.factor_names[0], *groups[1:]]
    words = dict(zip(ITEMS, map(shown, HOSTILE), strict=True))
    for row, (name, numbers) in zip(body, expected_rows(named, 0.3), strict=True):
        assert row[0] == name
        assert row[1] == words[name]
        assert row[2:5] == numbers
    texts = [one.text for one in document.paragraphs]
    assert texts[:2] == ["Table 1", "Factor Loadings and Communalities of 9 Items"]
    note = next(one for one in texts if one.startswith("Note. N = 400."))
    assert "oblimin rotation" in note
    assert "below .30" in note
    assert "1 = Neuroticism" in note
    assert f"cuspfa {cuspfa.__version__}" in note
    assert [cell.text for cell in second.rows[0].cells][-2:] == ["α", "ω"]
    assert re.fullmatch(r"\.\d\d\s\[−?\.\d\d,\s\.\d\d\]", second.rows[1].cells[-1].text)
    assert third.rows[1].cells[0].text == "1 Neuroticism"
    assert [row.cells[0].text for row in fourth.rows][1:4] == ["χ²", "df", "p"]
    largest = [run.bold for row in first.rows[1:] for run in row.cells[2].paragraphs[0].runs]
    assert True in largest
    xml = first._tbl.xml
    assert "w:tblHeader" in xml
    assert document.core_properties.author == ""
    # Word is strict about the order of these elements.
    kinds = [one.tag.partition("}")[2] for one in first._tbl.tblPr]
    order = ["tblStyle", "tblW", "jc", "tblBorders", "tblLayout", "tblCellMar", "tblLook"]
    assert kinds == [one for one in order if one in kinds]


def test_excel(named, tables, tmp_path):
    path = tmp_path / "t.xlsx"
    named.with_factor_names(["=A1", "+B", "@C"]).apa_tables(suppress=0.3).write(path)
    book = openpyxl.load_workbook(path)
    assert book.sheetnames == ["1 loadings", "2 factors", "3 correlations", "4 fit"]
    types = {cell.data_type for sheet in book for row in sheet.iter_rows() for cell in row}
    assert "f" not in types
    sheet = book["1 loadings"]
    assert [cell.value for cell in sheet[4]][:6] == ["Item", "Wording", "=A1", "+B", "@C", "h²"]
    rows = [[cell.value for cell in row] for row in sheet.iter_rows(min_row=5)]
    values = {row[0]: row for row in rows if row[0] in ITEMS}
    for row in tables.items:
        for found, one in zip(values[row.name][2:5], row.loadings, strict=True):
            assert found == (pytest.approx(one.value) if abs(one.value) >= 0.3 else None)
        assert values[row.name][5] == pytest.approx(row.communality.value)
    assert values["N1"][1] == "=1+2"
    factors = [[cell.value for cell in row] for row in book["2 factors"].iter_rows(min_row=4)]
    assert factors[0][2:5] == ["Variance (%)", "lower", "upper"]
    np.testing.assert_allclose(factors[1][2:5], np.multiply(tables.factors[0].share, 100))
    assert factors[1][-3:] == pytest.approx(list(tables.factors[0].omega))
    assert not any(cell.hyperlink for row in sheet.iter_rows() for cell in row)
    for one in book:  # the note is read without scrolling, and a page has the whole width
        (place,) = one.merged_cells.ranges
        note = one.cell(place.min_row, 1)
        assert str(note.value).startswith("Note. ")
        assert note.alignment.wrap_text
        letters = [one.column_dimensions[name].width for name in "ABCDEF"]
        assert sum(letters[: place.max_col]) >= 40
        assert one.row_dimensions[place.min_row].height >= 30
        assert one.sheet_properties.pageSetUpPr.fitToPage


class Cells(HTMLParser):
    def __init__(self):
        super().__init__()
        self.rows, self.tags, self.cell = [], set(), None

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        if tag == "tr":
            self.rows.append([])
        elif tag in ("td", "th"):
            self.rows[-1].append("")
            self.cell = True

    def handle_endtag(self, tag):
        if tag in ("td", "th"):
            self.cell = None

    def handle_data(self, data):
        if self.cell:
            self.rows[-1][-1] += data


def test_html(named, tmp_path):
    path = tmp_path / "t.html"
    named.apa_tables(suppress=0.3).write(path)
    reader = Cells()
    reader.feed(path.read_text(encoding="utf-8"))
    assert "script" not in reader.tags
    assert "b" in reader.tags
    words = dict(zip(ITEMS, map(shown, HOSTILE), strict=True))
    rows = {row[0]: row for row in reader.rows if row}
    for name, numbers in expected_rows(named, 0.3):
        assert rows[name][1:5] == [words[name], *numbers]


def test_markdown(named):
    text = named.apa_tables(suppress=0.3).to_markdown()
    words = dict(zip(ITEMS, map(shown, HOSTILE), strict=True))
    lines = [line for line in text.splitlines() if line.startswith("| ")]
    found = {}
    for line in lines:
        cells = [one.strip() for one in re.split(r"(?<!\\)\|", line)[1:-1]]
        found[cells[0]] = [re.sub(r"\\(\W|_)", r"\1", one) for one in cells]
    for name, numbers in expected_rows(named, 0.3):
        assert len(found[name]) == 6
        assert found[name][1] == words[name]
        assert [one.strip("*") for one in found[name][2:5]] == numbers
    assert str(named.apa_tables(suppress=0.3)) == text
    assert r"\<script\>" in text


def test_latex_is_balanced(named):
    text = named.apa_tables().to_latex()
    bare = re.sub(r"\\[\\{}%]", "", text)
    assert bare.count("{") == bare.count("}")
    assert text.count(r"\begin{table}") == text.count(r"\end{table}") == 4
    for line in text.splitlines():
        if line.endswith(r"\\") and " & " in line and line.startswith("N1"):
            assert len(re.findall(r"(?<!\\)&", line)) == 5
    assert r"50 \% \& \$x\_1\textasciicircum{}2\$ \#1" in text
    assert r"\textbackslash{}input\{x\}" in text


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="needs LaTeX")
@pytest.mark.parametrize("many", [False, True])
def test_latex_is_compiled(named, tmp_path, many):
    latin = {name: "x" if name == "O3" else text for name, text in zip(ITEMS, HOSTILE, strict=True)}
    tables = named.with_wording(latin).apa_tables(suppress=0.3)
    if many:  # a table that is longer than a page
        rng = np.random.default_rng(0)
        rows = rng.standard_normal((300, 1)) + rng.standard_normal((300, 60))
        names = [f"[item_{j}]" for j in range(60)]
        frame = pd.DataFrame(rows, columns=names)
        tables = CuspFactorAnalysis(n_factors=1).fit(frame).posterior_.apa_tables()
    tables.write(tmp_path / "t.tex")
    packages = re.search(r"\\usepackage\{[^}]*\}", tables.to_latex())[0]
    body = rf"\documentclass{{article}}{packages}\begin{{document}}\input{{t}}\end{{document}}"
    (tmp_path / "main.tex").write_text(body)
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "main.tex"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, check=False)
    assert done.returncode == 0, done.stdout.decode("latin-1")[-2000:]
    if shutil.which("pdftotext"):
        subprocess.run(["pdftotext", "-layout", "main.pdf"], cwd=tmp_path, check=True)
        read = (tmp_path / "main.txt").read_text(encoding="utf-8")
        assert re.search(r"\[item.59\]" if many else "<script>x</script>", read)


# --- other fits ---


def test_intervals_stand_in_brackets_if_asked(posterior):
    text = posterior.apa_tables(intervals=True).to_markdown()
    line = next(line for line in text.splitlines() if line.startswith("| N1 "))
    assert len(re.findall(r"\\\[−?\.\d\d, −?\.\d\d\\\]", line)) == 4
    assert "include the uncertainty of the axes" in text


@pytest.mark.parametrize("k", [0, 1])
def test_few_factors(tmp_path, k):
    X = datasets.simulate(100, 6, 1, random_state=0).X
    posterior = CuspFactorAnalysis(n_factors=k).fit(X).posterior_
    tables = posterior.apa_tables()
    assert len(tables.factors) == k
    assert tables.correlations is None
    for suffix in ("docx", "tex", "md", "html", "xlsx"):
        tables.write(tmp_path / f"t.{suffix}")
    text = tables.to_markdown()
    assert ("Factor Loadings" in text) == (k == 1)
    assert "| x0 |" in text
    assert "principal axes" in text or k == 0
    assert "rotation" not in text


def test_a_factor_with_one_item_has_no_alpha():
    rng = np.random.default_rng(1)
    common = rng.standard_normal((300, 1))
    X = np.hstack([common + 0.5 * rng.standard_normal((300, 5)), rng.standard_normal((300, 1))])
    tables = CuspFactorAnalysis(n_factors=2, rotation="varimax").fit(X).posterior_.apa_tables()
    lonely = [one for one in tables.factors if one.n_items < 2]
    assert lonely
    assert all(one.alpha is None and one.omega is None for one in lonely)
    assert "| – | – |" in tables.to_markdown()


def test_gibbs_missing_values_and_a_fit_without_statistics(tmp_path):
    frame = datasets.load_bfi(subset="items", as_frame=True).data[ITEMS].head(200)
    incomplete = frame.mask(np.random.default_rng(0).random(frame.shape) < 0.02)
    fitted = CuspFactorAnalysis(n_factors=3, rotation="varimax").fit(incomplete).posterior_
    assert "Missing values were taken as missing at random" in str(fitted.apa_tables())
    assert "approximate" not in str(fitted.apa_tables())
    fitted.save(tmp_path / "fit.cusp")
    again = load(tmp_path / "fit.cusp").apa_tables()
    assert "the intervals are approximate" in str(again)  # the rows are not in the file
    chains = cuspfa.Gibbs(n_draws=400, n_chains=2, thin=10)
    model = CuspFactorAnalysis(n_factors=1, method=chains, rotation="oblimin", random_state=0)
    sampled = model.fit(frame[["N1", "N2", "N3"]].dropna())
    tables = sampled.posterior_.apa_tables()
    assert tables.correlations is None  # of one factor
    assert all(0 < one.alpha.lower < one.alpha.upper < 1 for one in tables.factors)
    bare = CuspFactorAnalysis(n_factors=1).fit(frame.dropna()).posterior_
    bare.save(tmp_path / "bare.cusp", statistics=False)
    assert load(tmp_path / "bare.cusp").apa_tables().fit is None


def test_labels_of_values_are_in_the_note():
    """Only where all items have the same."""
    posterior = load(Path(__file__).parents[1] / "io" / "golden" / "variational_2.cusp")
    assert posterior.apa_tables().scale == ()  # q1 alone has any
    assert posterior.provenance is not None
    data = posterior.provenance.data
    assert data is not None
    scale = data.labels[0].values
    same = tuple(replace(one, values=scale) for one in data.labels)
    provenance = replace(posterior.provenance, data=replace(data, labels=same))
    text = str(replace(posterior, provenance=provenance).apa_tables())
    assert "Answers: 1 = never, 5 = always." in text


# --- files ---


def test_a_file_is_written_whole_or_not_at_all(tables, tmp_path, monkeypatch):
    from cuspfa.reporting.tables import files

    path = tmp_path / "t.docx"
    path.write_bytes(b"old")

    def broken(_, target):
        target.write_bytes(b"half")
        raise OSError(28, "No space left on device")

    monkeypatch.setitem(files.DOCUMENTS, ".docx", broken)
    with pytest.raises(OSError, match=r"t\.docx"):
        tables.write(path)
    assert path.read_bytes() == b"old"
    assert [one.name for one in tmp_path.iterdir()] == ["t.docx"]


def test_wrong_files_and_arguments(tables, posterior, tmp_path, monkeypatch):
    with pytest.raises(InputError, match="must end in .docx, .tex, .md, .html or .xlsx"):
        tables.write(tmp_path / "t.pdf")
    with pytest.raises(InputError, match="there is no directory"):
        tables.write(tmp_path / "none" / "t.md")
    for wrong in (-0.1, 1.5, "0.3", None):
        with pytest.raises(InputError, match="suppress must be a number between 0 and 1"):
            posterior.apa_tables(suppress=wrong)
    with pytest.raises(InputError, match="sort must be"):
        posterior.apa_tables(sort=2)
    from cuspfa._utils import optional

    monkeypatch.setattr(optional, "import_or_none", lambda module: None)
    with pytest.raises(InputError, match=r"needs docx: pip install 'cuspfa\[office\]'"):
        tables.write(tmp_path / "t.docx")


def test_the_program(named, tmp_path, monkeypatch, capsys):
    from cuspfa.cli.app import run_program

    monkeypatch.chdir(tmp_path)
    named.save("fit.cusp")
    words = ["table", "fit.cusp", "-o", "t.md", "--suppress", "0.3"]
    assert run_program(words) == 0
    with open("t.md", encoding="utf-8") as file:
        assert file.read() == load("fit.cusp").apa_tables(suppress=0.3).to_markdown()
    assert run_program([*words, "--names", "A,B,C", "--reverse", "B", "--intervals"]) == 0
    with open("t.md", encoding="utf-8") as file:
        assert "| Item | Wording | A | B | C |" in file.read()
    for wrong, said in (
        (["table", "fit.cusp", "-o", "t.pdf"], "-o must end in .docx"),
        (["table", "fit.cusp", "-o", "fit.cusp"], "-o: 'fit.cusp' is the input"),
        (["table", "fit.cusp", "-o", "t.md", "--suppress", "30"], "--suppress must be a number"),
        (["table", "none.cusp", "-o", "t.md"], "none.cusp"),
        (["table", "fit.cusp"], "-o is missing"),
    ):
        capsys.readouterr()
        assert run_program(wrong) == 2
        assert said in capsys.readouterr().err


def test_the_note_of_the_fit_explains_only_what_is_in_the_table(tables):
    noise = np.random.default_rng(0).normal(size=(200, 8))
    nothing = CuspFactorAnalysis().fit(noise).posterior_.apa_tables()
    assert not nothing.factors
    assert "ω total" not in nothing.to_markdown()
    assert "Olkin measure." in nothing.to_markdown()
    assert tables.to_markdown().count("ω total") == 2


def test_a_notebook_shows_the_tables_of_the_page(posterior):
    tables = posterior.apa_tables()
    shown = tables._repr_html_()
    assert shown in tables.to_html()
    assert shown.count("<table>") == shown.count("</table>") == 4
    assert "<body" not in shown
    assert "<style" not in shown
