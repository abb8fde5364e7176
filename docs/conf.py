"""How Sphinx builds these pages: `nox -s docs`. Nothing is fetched while it builds."""

from importlib.metadata import version as version_of

project = "Understudy"
author = "Understudy contributors"
copyright = "2026, Understudy contributors"  # noqa: A001 - the name Sphinx reads
release = version_of("understudy")
version = release

extensions = ["myst_parser", "sphinx.ext.autodoc"]
exclude_patterns = ["_build", "changelog.d"]

html_theme = "furo"
html_title = f"Understudy {release}"
html_static_path = ["_static"]
html_show_sphinx = False

myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3

# In docstrings a word in single backquotes is code, and a link where it names something.
default_role = "py:obj"
autodoc_member_order = "bysource"
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 88

# Every cross-reference must lead somewhere, but for these:
smartquotes_action = "qe"  # no dashes: --json is an option, and not half a sentence

nitpicky = True
nitpick_ignore_regex = [
    ("py:obj", r".*"),  # the default role, see above
    # Pages are built without the network, so without the inventories of other projects.
    ("py:.*", r"(attrs?|collections|contextlib|os|outcome|pathlib|random|trio|types|typing)\..*"),
    ("py:(class|exc)", r"[a-z]+|.*(Error|Exception)"),  # builtins
    # Sphinx knows classes; these are type aliases and variables, said in words where they stand.
    (
        "py:class",
        r"([\w.]+\.)?(Answer|Args|MakeActor|Message|RestartKind|State|StopOrder|Strategy|T|Value)",
    ),
    # Ids are plain text to whoever uses them.
    ("py:class", r"supervisor\.core\.ids\.(Session|Turn|Input|Call|Request)Id"),
]
