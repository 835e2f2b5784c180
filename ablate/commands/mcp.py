"""Serve the results, plans and the referee to a coding agent (Model Context Protocol)."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ablate.commands import _options
from ablate.errors import MissingDependency, needs

if TYPE_CHECKING:
    from mcp.server import MCPServer

    from ablate.commands._agent_tools import Tools

EXAMPLE = "ablate mcp --ledger ledger.jsonl"
INSTRUCTIONS = (
    "ablate judges whether a variant really helps. Before you call a change an improvement, judge "
    "it on at least 5 seeds that its base ran as well: differences of one seed are noise. Run what "
    "`next` says, no more; do not judge after every seed. `undecided` is a result."
)


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `ablate mcp`."""
    parser.add_argument(
        "studies", nargs="*", help="study files that the agent may plan, besides the shipped ones"
    )
    parser.add_argument(
        "--ledger", metavar="FILE", help="count every variant that the agent judges, in this file"
    )
    _options.add_locations(parser)


def run(options: argparse.Namespace) -> int:
    """Serve over stdin and stdout until the client closes them."""
    from ablate.commands._agent_tools import Tools

    places = {name: getattr(options, name) for name in _options.LOCATIONS}
    tools = Tools(
        places={name: value for name, value in places.items() if value is not None},
        files=options.studies,
        ledger=options.ledger,
    )
    server(tools).run("stdio")
    return 0


def server(tools: Tools) -> MCPServer:
    """Return a server of these tools."""
    try:
        from mcp.server import MCPServer
    except ModuleNotFoundError as error:
        raise MissingDependency(needs("ablate mcp needs", "mcp")) from error
    made = MCPServer("ablate", instructions=INSTRUCTIONS, log_level="WARNING")
    for tool in tools.reading:
        _add(made, tool, reads=True)
    for tool in tools.writing:
        _add(made, tool, reads=False)
    return made


def _add(made: MCPServer, tool: Callable[..., Any], *, reads: bool) -> None:
    from mcp.types import ToolAnnotations

    hints = ToolAnnotations(read_only_hint=reads, destructive_hint=False)
    made.add_tool(tool, annotations=hints)
