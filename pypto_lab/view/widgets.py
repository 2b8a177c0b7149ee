"""Notebook widgets (anywidget): thin, they carry data to the browser and answer its messages.

All graph widgets share one hidden model that holds the Graphviz library, so the library travels and is saved once.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from pypto_lab.view import assets, draw
from pypto_lab.view.graph import Graph

_NO_VIEW = "export default { render() {} }"


@cache
def _classes() -> tuple[type[Any], type[Any]]:
    """The widget classes; made on first use, so that nothing imports a widget library before it is needed."""
    import anywidget
    import traitlets
    from ipywidgets import widget_serialization

    class GraphLibrary(anywidget.AnyWidget):  # type: ignore[misc, unused-ignore]
        _esm = _NO_VIEW
        source = traitlets.Bytes().tag(sync=True)

    class GraphView(anywidget.AnyWidget):  # type: ignore[misc, unused-ignore]
        _esm = assets.text("graph.js")
        _css = assets.text("lab.css") + assets.text("graph.css")
        payload = traitlets.Dict().tag(sync=True)
        library = traitlets.Instance(GraphLibrary).tag(sync=True, **widget_serialization)

        def __init__(self, graph: Graph, **keywords: Any) -> None:
            self.graph = graph
            self.folded: frozenset[str] = frozenset()
            super().__init__(payload=draw.payload(graph), **keywords)
            self.on_msg(self._message)

        def _message(self, _widget: object, content: Any, _buffers: object) -> None:
            cluster = content.get("toggle") if isinstance(content, dict) else None
            if cluster in {c.id for c in self.graph.clusters}:
                self.toggle(cluster)

        def toggle(self, cluster: str) -> None:
            """Folds a cluster into one node, or unfolds it."""
            self.folded ^= {cluster}
            self.payload = draw.payload(self.graph.folded(self.folded))

        def _repr_mimebundle_(self, **keywords: Any) -> Any:
            bundle = super()._repr_mimebundle_(**keywords)
            data = bundle[0] if isinstance(bundle, tuple) else bundle
            if data is not None:  # what GitHub and nbconvert show: no more nodes than a picture can be read with
                data.update(self.graph.within()._repr_mimebundle_())
                data["text/plain"] = self.graph.text()
            return bundle

    return GraphLibrary, GraphView


@cache
def _library() -> Any:
    return _classes()[0](source=assets.path("viz.js.gz").read_bytes())


def graph_widget(graph: Graph) -> Any:
    """A widget that draws the graph in the browser. Raises ModuleNotFoundError with the extra to install."""
    try:
        view = _classes()[1]
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(f"{error}; install it with: pip install 'pypto-lab[lab]'", name=error.name) from None
    return view(graph, library=_library())
