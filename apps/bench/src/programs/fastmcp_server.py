"""Files as resources of FastMCP: `fastmcp run fastmcp_server.py -- DIRECTORY`."""

import sys
from pathlib import Path

from fastmcp import FastMCP

directory = Path(sys.argv[1])
mcp = FastMCP("bench")


@mcp.resource("files://bench/{name}", mime_type="application/octet-stream")
def read(name: str) -> bytes:
    return (directory / name).read_bytes()
