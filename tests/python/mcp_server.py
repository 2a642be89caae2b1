"""A server of the Model Context Protocol over stdin and stdout, with two tools that touch files."""
from pathlib import Path

from mcp.server.mcpserver import MCPServer

server = MCPServer("files")


@server.tool()
def write(path: str, text: str) -> str:
    """Writes a file; says how many characters."""
    try:
        return f"wrote {Path(path).write_text(text)}"
    except OSError as error:
        return f"failed: {error.strerror}"


@server.tool()
def read(path: str) -> str:
    """A file's text."""
    try:
        return Path(path).read_text()
    except OSError as error:
        return f"failed: {error.strerror}"


server.run()
