"""A model server on loopback, with a script in place of a model: streamed chat completions that call one tool.

`Remote` is the client that the frameworks' model classes use. It sends what the tool came to, and reads the next call off
the stream.
"""
from __future__ import annotations

import http.client
import http.server
import json
import threading
from typing import Any

PIECE = 7  # characters of arguments in each event: a call comes in many


class ModelServer:
    """Serves `commands` in turn, within a `with`. `answers` are what it was told of each."""

    def __init__(self, commands: list[str]) -> None:
        self.commands, self.answers = commands, list[str]()
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                last = request["messages"][-1]
                if last["role"] == "tool":
                    outer.answers.append(last["content"])
                self.send_response(200)
                self.send_header("Content-Type", "text/event-stream")
                self.send_header("Connection", "close")
                self.end_headers()
                for delta in outer.deltas():
                    self.wfile.write(f"data: {json.dumps({'choices': [{'index': 0, 'delta': delta}]})}\n\n".encode())
                self.wfile.write(b"data: [DONE]\n\n")
                self.close_connection = True

            def log_message(self, *_: Any) -> None: ...
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.port = self.server.server_address[1]

    def deltas(self) -> list[dict[str, Any]]:
        at = len(self.answers)
        if at == len(self.commands):
            return [{"role": "assistant", "content": "do"}, {"content": "ne"}]
        text = json.dumps({"command": self.commands[at]})
        pieces = [text[one:one + PIECE] for one in range(0, len(text), PIECE)]
        return [{"role": "assistant", "tool_calls": [{"index": 0, "id": f"call{at}", "function": {"name": "shell", "arguments": ""}}]},
                *({"tool_calls": [{"index": 0, "function": {"arguments": piece}}]} for piece in pieces)]

    def __enter__(self) -> ModelServer:
        threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.server.shutdown()
        self.server.server_close()


class Remote:
    """Takes the place of a `Script`: `next` gets what the last command came to, and gives the next one; None at the end."""

    def __init__(self, server: ModelServer) -> None:
        self.server = server
        self.read: list[int] = []  # one for each answer that was sent

    def next(self, last: str | None) -> str | None:
        message = {"role": "user", "content": "go"}
        if last is not None:
            self.read.append(len(last))
            message = {"role": "tool", "tool_call_id": f"call{len(self.read) - 1}", "content": last}
        connection = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=60)
        connection.request("POST", "/v1/chat/completions", json.dumps({"model": "scripted", "stream": True, "messages": [message]}),
                           {"Content-Type": "application/json"})
        arguments, ended = "", False
        for line in connection.getresponse():
            data = line.removeprefix(b"data: ").strip()
            if data == b"[DONE]":
                ended = True
            elif data:
                for call in json.loads(data)["choices"][0]["delta"].get("tool_calls", []):
                    arguments += call["function"]["arguments"]
        connection.close()
        assert ended, "the stream was cut"
        return str(json.loads(arguments)["command"]) if arguments else None
