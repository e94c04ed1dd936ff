"""The contract that rooms are pure apart from their jobs, for import-linter."""

from __future__ import annotations

from grimp import ImportGraph
from importlinter import Contract, ContractCheck, fields, output


class PureContract(Contract):
    """No module imports a forbidden one, directly or through others, unless it is an edge.

    ``edges`` are rooms that touch the outside as a whole; in every other room only ``job`` does. Modules directly in a
    root package are doors, and open onto anything.
    """

    rooms = fields.StringField()
    edges = fields.SetField(subfield=fields.StringField())
    forbidden = fields.SetField(subfield=fields.StringField())

    def check(self, graph: ImportGraph, verbose: bool) -> ContractCheck:
        """Look for a chain from each pure module to each forbidden one."""
        pure = [module for module in sorted(graph.modules) if self._is_pure(module)]
        there = [module for module in sorted(self.forbidden) if module in graph.modules]
        chains = [
            chain
            for module in pure
            for target in there
            if (chain := graph.find_shortest_chain(importer=module, imported=target)) is not None
        ]
        return ContractCheck(kept=not chains and bool(pure), metadata={"chains": chains})

    def _is_pure(self, module: str) -> bool:
        root, *rest = module.split(".")
        if root != self.rooms:
            return root in ("learner", "schemas")
        return bool(rest) and self._room_is_pure(rest)

    def _room_is_pure(self, path: list[str]) -> bool:
        is_door = len(path) == 1 and path[0] in ("app", "cli", "client", "ranker")
        return not is_door and path[0] not in self.edges and path[1:2] != ["job"]

    def render_broken_contract(self, check: ContractCheck) -> None:
        """Print each chain."""
        for chain in check.metadata["chains"]:
            output.print_error(" -> ".join(chain))
