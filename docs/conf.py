"""The documentation site: `make docs` builds it into docs/_build/html."""

import inspect
import os
import sys
from pathlib import Path

from docutils.nodes import Element
from sphinx.addnodes import pending_xref
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.util.inspect import stringify_signature
from traitlets import HasTraits

from gradwalk import __version__

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "tools"))

from site_pages import (  # noqa: E402
    copy_mathjax,
    copy_notebooks,
    write_gallery,
    write_gallery_page,
    write_json_page,
)

project = "gradwalk"
author = "The gradwalk developers"
copyright = author  # noqa: A001
version = release = __version__

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx.ext.intersphinx",
    "sphinx_design",
]
source_suffix = {".md": "myst-nb", ".ipynb": "myst-nb"}
exclude_patterns = ["_build", "_ipython", "_static"]
myst_enable_extensions = ["colon_fence", "dollarmath"]
myst_heading_anchors = 3
default_role = "py:obj"
add_module_names = False
nitpicky = True
nitpick_ignore_regex = [
    # Of other packages; they are links where the indexes below can be read.
    (r"py:.*", r"(torch|networkx|nx|ipywidgets|pandas|pd|numpy|graphviz|collections|os)\b.*"),
    (r"py:.*", r"(nn|pathlib)\..*|Node|SummaryWriter|.*\.amounts\.(Bytes|Flops)"),
    # Literals and unions, which the text spells out.
    (r"py:.*", r"(.*\.)?(By|Theme|Assets|HasGraphs)"),
    (r"py:.*", r"[a-z]\w*"),  # arguments, and the standard library
    (r"py:class", r".*\._[A-Z]"),  # type variables
]

# Lessons and pages run while the site is built. Each graph is a page of its own in _live.
LIVE = HERE / "_build" / "live"
LIVE.joinpath("_live").mkdir(parents=True, exist_ok=True)
html_extra_path = [str(LIVE)]
os.environ["GRADWALK_LIVE"] = str(LIVE / "_live")
os.environ["IPYTHONDIR"] = str(HERE / "_ipython")
nb_execution_mode = "cache"
nb_execution_cache_path = str(HERE / "_build" / "cache")
nb_execution_in_temp = True  # what a page writes is not kept
nb_execution_timeout = 300
nb_execution_raise_on_error = True
nb_merge_streams = True
nb_ipywidgets_js: dict[str, dict[str, str]] = {}  # live pages need no scripts of other sites

# Formulas are set without another site, too.
mathjax_path = "tex-svg.js"

# The indexes of other sites are read where there is a network.
OTHER_SITES = {
    "python": ("https://docs.python.org/3", None),
    "torch": ("https://docs.pytorch.org/docs/stable", None),
    "networkx": ("https://networkx.org/documentation/stable", None),
}
intersphinx_mapping = OTHER_SITES if os.environ.get("DOCS_ONLINE") else {}

autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
napoleon_numpy_docstring = False
napoleon_use_rtype = False
napoleon_use_ivar = True

html_theme = "pydata_sphinx_theme"
html_title = "gradwalk"
html_favicon = "_static/favicon.svg"
html_context = {"default_mode": "auto"}
html_static_path = ["_static"]
html_css_files = ["live.css"]
html_js_files = ["live.js"]
html_show_sourcelink = False
html_theme_options = {
    "github_url": "https://github.com/gradwalk/gradwalk",
    "navigation_with_keys": False,
    "footer_start": ["copyright"],
    "footer_end": [],
}
html_sidebars = {"index": [], "gallery": [], "live-figures": [], "changelog": []}


def link_short_name(
    app: Sphinx, env: BuildEnvironment, node: pending_xref, content: Element
) -> Element | None:
    """Resolve `GraphModel` to the one object of that name, wherever it is."""
    domain = env.get_domain("py")
    last = node["reftarget"].rpartition(".")[2]
    found = [
        name
        for name, place in domain.objects.items()
        if name.rpartition(".")[2] == last and not place.aliased
    ]
    if node.get("refdomain") != "py" or len(found) != 1:
        return None
    return domain.resolve_xref(env, node["refdoc"], app.builder, "obj", found[0], node, content)


def widget_signature(
    _app: Sphinx, _what: str, _name: str, obj: object, *_more: object
) -> tuple[str, str] | None:
    """Show the arguments of a widget, which traitlets hides behind ``*args``."""
    if not (isinstance(obj, type) and issubclass(obj, HasTraits)):
        return None
    return stringify_signature(inspect.signature(obj), show_return_annotation=False), ""


def setup(app: Sphinx) -> None:
    """Add what the site makes by itself."""
    copy_notebooks()
    copy_mathjax(LIVE)
    write_json_page()
    write_gallery_page()
    app.connect("builder-inited", lambda _app: write_gallery(LIVE))
    app.connect("autodoc-process-signature", widget_signature)
    app.connect("missing-reference", link_short_name)
