"""How the pages are built (`make docs`): offline, and so that no page fetches anything either."""

import logging
import re
import shutil
from importlib.metadata import version as installed_version
from pathlib import Path

from sphinx.util.inspect import TypeAliasForwardRef

project = "cuspfa"
author = "The cuspfa developers"
project_copyright = author
release = version = installed_version("cuspfa")

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "numpydoc",
    "sphinx_gallery.gen_gallery",
]
exclude_patterns = ["_build", "analyses"]
html_theme = "furo"
html_title = f"cuspfa {version}"
html_static_path = ["_static"]
html_css_files = ["tables.css"]
html_show_sphinx = False
html_copy_source = False

# The pages are also read where they lie, so they are plain Markdown. MyST gives every heading an
# anchor; `<a id="…">` is what the generated pages have for anchors that outlive their headings.
myst_heading_anchors = 3
suppress_warnings = ["myst.header"]  # CHANGELOG.md is a page of its own when it is read alone

default_role = "py:obj"  # `fit` in a docstring is a link where there is something to link to
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
autodoc_type_aliases = {name: name for name in ("Array", "BoolArray", "FloatArray", "Indices")}
TypeAliasForwardRef.__repr__ = lambda alias: alias.name  # `Array | None` reads as in the source
python_maximum_signature_line_length = 88
python_use_unqualified_type_names = True
autodoc_member_order = "bysource"
autosummary_generate = True
templates_path = ["_templates"]
numpydoc_show_class_members = False
numpydoc_xref_param_type = False
toc_object_entries_show_parents = "hide"


# Whole analyses, executed in every build. An error of a page is an error of the build.
sphinx_gallery_conf = {
    "examples_dirs": "analyses",
    "gallery_dirs": "generated/analyses",
    "filename_pattern": "/plot_",
    "within_subsection_order": "FileNameSortKey",
    "abort_on_example_error": True,
    "capture_repr": ("_repr_html_",),
    "download_all_examples": False,
    "image_scrapers": ("matplotlib",),
    "min_reported_time": 1000,
    "remove_config_comments": True,
    "reset_modules": ("matplotlib",),
    "show_memory": False,
    "show_signature": False,
    "write_computation_times": False,
}

# It warns of spaces in the whole path, and would not build in a folder that has one.
logging.getLogger("sphinx.sphinx-gallery").addFilter(
    lambda record: "with spaces found" not in str(record.msg)
)

# One page for each public name, written by autosummary. A page of a name that is gone would be
# an error of the build.
shutil.rmtree(Path(__file__).parent / "generated", ignore_errors=True)


def targets_of_anchors(app, docname, source):
    """HTML anchors become targets that Sphinx can check links against."""
    source[0] = re.sub(r'^<a id="([\w-]+)"></a>$', r"(\1)=", source[0], flags=re.MULTILINE)


def names_that_end_in_underscores(app, what, name, obj, options, lines):
    """`n_factors_` is a name of scikit-learn's kind, not a reference of reStructuredText."""
    for number, line in enumerate(lines):
        if not line.lstrip().startswith((">>>", "...")):
            lines[number] = re.sub(r"(?<=\w)_(?!\w)", r"\_", line)


def members_of_scikit_learn(app, what, name, obj, skip, options):
    """Inherited methods are scikit-learn's to document, and their links lead to its own pages."""
    module = getattr(obj, "__module__", None) or ""
    return True if module.startswith("sklearn.") else None


def setup(app):
    app.connect("autodoc-skip-member", members_of_scikit_learn)
    app.connect("source-read", targets_of_anchors)
    app.connect("autodoc-process-docstring", names_that_end_in_underscores, priority=900)
