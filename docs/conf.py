"""Sphinx configuration of these pages (`nox -s docs`); the build uses no network."""

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

# A word in single backquotes in a docstring is code, and a link if it names an object.
default_role = "py:obj"
autodoc_member_order = "bysource"
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 88

smartquotes_action = "qe"  # no dashes: --json is an option

# Every cross-reference must resolve, except these:
nitpicky = True
nitpick_ignore_regex = [
    ("py:obj", r".*"),  # the default role, see above
    # The build uses no network, so it has no inventories of other projects.
    ("py:.*", r"(attrs?|collections|contextlib|os|outcome|pathlib|random|trio|types|typing)\..*"),
    ("py:(class|exc)", r"[a-z]+|.*(Error|Exception)"),  # builtins
    # Type aliases and variables, which Sphinx does not list; the text describes them.
    (
        "py:class",
        r"([\w.]+\.)?(Answer|Args|MakeActor|Message|RestartKind|State|StopOrder|Strategy|T|Value)",
    ),
    # Keyword options; the docstring refers to the method that documents them.
    ("py:class", r"([\w.]+\.)?(Prompt|Send|Spawn)Options"),
    # Users hold the public class `Child`; signatures name the protocol.
    ("py:class", r"([\w.]+\.)?ChildHandle"),
    # The common base of the public classes `Ref` and `Group`.
    ("py:class", r"([\w.]+\.)?Handle"),
    # Used by the daemon and its tools only; not public names.
    ("py:class", r"([\w.]+\.)?(Introspection|ToolAccess)"),
    # Ids are plain text to users.
    ("py:class", r"supervisor\.core\.ids\.(Session|Turn|Input|Call|Request)Id"),
]
