"""The values of the page of the lineage: the picture, and the list of what needs attention."""

from typing import Annotated, TypeAlias

import attrs
from fastapi import Depends

from narthex_server.alerts import routes as alerts
from narthex_server.catalog import branch_catalog, lineage
from narthex_server.console.entity_status import (
    MEANINGS,
    ORDER,
    SYMBOLS,
    EntityStatus,
    StatusKind,
    entity_statuses,
)
from narthex_server.console.lineage_drawing import draw
from narthex_server.console.lineage_graph import (
    FEATURE,
    EntityNode,
    Graph,
    by_featureset,
    path_of,
    picked,
    read,
)
from narthex_server.security.dataset_access import Access
from narthex_server.security.request_access import AccessDep
from narthex_server.services.container import Services, ServicesDep


@attrs.frozen(kw_only=True)
class LineageView:
    """The chosen part of a lineage.

    Attributes:
        of: The name of the entity whose path is shown; empty for the whole lineage.
        features: Whether each feature has a box of its own, and not each featureset.
        users: Whether the path has what is computed from the entity, too. A feature's path has
            only what it is computed from unless this is given.
        rest: Whether the rest of the lineage is shown, dimmed.
    """

    of: str = ""
    features: bool = False
    users: bool | None = None
    rest: bool = False


def _view(
    *, of: str = "", features: bool = False, users: bool | None = None, rest: bool = False
) -> LineageView:
    return LineageView(of=of, features=features, users=users, rest=rest)


LineageViewDep: TypeAlias = Annotated[LineageView, Depends(_view)]


def lineage_values(
    services: ServicesDep, access: AccessDep, view: LineageViewDep
) -> dict[str, object]:
    """Return the values of the page of the lineage of a branch."""
    whole = read(lineage.lineage(services.snapshots, access))
    statuses = _statuses(services, access, whole)
    is_feature = (FEATURE, view.of) in whole.nodes
    users = not is_feature if view.users is None else view.users
    # A path of features is found among features: by featuresets, it would have their other inputs.
    path = path_of(whole, view.of, has_users=users) if is_feature else frozenset[EntityNode]()
    graph = whole if view.features else by_featureset(whole, apart=path)
    shown = graph
    if view.of and not view.rest:
        shown = picked(graph, view.of, has_users=users)
    highlighted = path_of(graph, view.of, has_users=users) if view.of and view.rest else ()
    drawing = draw(shown, statuses=statuses, highlighted=highlighted)
    return {
        "drawing": drawing,
        "graph": shown,
        "statuses": statuses,
        "legend": _legend(shown, statuses),
        "attention": _attention(shown, statuses),
        "of": view.of,
        "users": users,
        "rest": view.rest,
        "has_features": view.features,
        "is_feature": is_feature,
        "exists": not view.of or bool(path_of(graph, view.of)),
        "queries": {
            "whole": _query(LineageView(features=view.features)),
            "users": _query(attrs.evolve(view, users=not users)),
            "rest": _query(attrs.evolve(view, rest=not view.rest)),
            "features": _query(attrs.evolve(view, features=not view.features)),
        },
    }


def _query(view: LineageView) -> dict[str, object]:
    """Return the parameters of the address of a view; those that are not given are empty."""
    return {
        "of": view.of,
        "features": 1 if view.features else "",
        "users": "" if view.users is None else int(view.users),
        "rest": 1 if view.rest else "",
    }


def _statuses(services: Services, access: Access, graph: Graph) -> dict[EntityNode, EntityStatus]:
    listed = alerts.listed(services.ledger, services.settings, access)["alerts"]
    return entity_statuses(
        graph,
        bindings=services.snapshots.head(access.branch).bindings,
        jobs=branch_catalog.jobs(services.ledger, access)["jobs"],
        alerts=[alert for alert in listed if alert["branch"] == access.branch],
    )


def _legend(graph: Graph, statuses: dict[EntityNode, EntityStatus]) -> list[dict[str, str | int]]:
    """Return each status with its symbol, its meaning, and how many nodes have it."""
    counts = dict.fromkeys(ORDER, 0)
    for node in graph.nodes:
        if node in statuses:
            counts[statuses[node].status] += 1
    return [
        {"status": one, "symbol": SYMBOLS[one], "meaning": MEANINGS[one], "count": counts[one]}
        for one in reversed(ORDER)
    ]


def _attention(
    graph: Graph, statuses: dict[EntityNode, EntityStatus]
) -> list[tuple[EntityNode, EntityStatus]]:
    """Return the nodes that are not healthy, the worst first."""
    found = [(node, statuses[node]) for node in graph.nodes if node in statuses]
    return sorted(
        (one for one in found if one[1].status != StatusKind.HEALTHY),
        key=lambda one: -ORDER.index(one[1].status),
    )
