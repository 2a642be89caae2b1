"""A model on loopback that speaks what coding agents speak, streamed: Anthropic Messages, OpenAI Responses and Chat Completions,
and Gemini.

The "model" follows a script. The number of tool results that a request carries says which step comes next, so a request that is
sent again gets the same answer. A request without tools (a title, a summary) gets a short text. `Model.results` holds what each
step's tool gave back, and `Model.keys` what the agent logged in with.
"""
from __future__ import annotations

import json
import re
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Callable

# A step is ("shell", COMMAND), ("write", PATH, TEXT), ("read", PATH) or ("mcp", TOOL, ARGUMENTS as JSON).
Step = tuple[str, ...]
Answer = list[str] | dict[str, Any]


class Model:
    """Serves until `close`."""

    def __init__(self, script: list[Step], text: Callable[[str], str] | None = None) -> None:
        self.script = script
        self.text = text  # what to say to an agent without tools, whose words these are
        self.results: list[str] = []
        self.keys: set[str] = set()
        self.paths: list[str] = []
        model = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                model.paths.append(self.path)
                self.answer({})

            def do_POST(self) -> None:
                body = json.loads(self.body() or b"{}")
                for name in ("x-api-key", "authorization", "x-goog-api-key"):
                    if self.headers.get(name):
                        model.keys.add(self.headers[name].removeprefix("Bearer "))
                model.paths.append(self.path)
                answer = model.answer_to(self.path.split("?")[0], body)
                if isinstance(answer, dict):
                    self.answer(answer)
                else:
                    self.stream(answer)

            def body(self) -> bytes:
                if self.headers.get("Transfer-Encoding") != "chunked":
                    return self.rfile.read(int(self.headers.get("Content-Length") or 0))
                whole = b""
                while size := int(self.rfile.readline() or b"0", 16):
                    whole += self.rfile.read(size)
                    self.rfile.readline()
                self.rfile.readline()
                return whole

            def answer(self, value: dict[str, Any]) -> None:
                text = json.dumps(value).encode()
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            def stream(self, events: list[str]) -> None:
                self.send_response(200)
                self.send_header("Content-Type", "text/event-stream")
                self.send_header("Transfer-Encoding", "chunked")
                self.end_headers()
                for event in events:
                    data = event.encode()
                    self.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
                    self.wfile.flush()
                self.wfile.write(b"0\r\n\r\n")

            def log_message(self, *_words: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.port = self.server.server_address[1]
        self.url = f"http://127.0.0.1:{self.port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def __enter__(self) -> Model:
        return self

    def __exit__(self, *_why: Any) -> None:
        self.server.shutdown()
        self.server.server_close()

    def next_step(self, results: list[str], tools: bool) -> Step | None:
        """Returns None if the model has only words left."""
        if tools and len(results) > len(self.results):
            self.results = results
        return self.script[len(results)] if tools and len(results) < len(self.script) else None

    def answer_to(self, path: str, body: dict[str, Any]) -> Answer:
        if path.endswith("/messages"):
            return self.anthropic(body)
        if path.endswith("/count_tokens"):
            return {"input_tokens": 10}
        if path.endswith("/responses"):
            return self.responses(body)
        if path.endswith("/chat/completions"):
            return self.chat(body)
        if path.lower().endswith("generatecontent"):
            return self.gemini(body, path.endswith(":streamGenerateContent"))
        return {}

    def anthropic(self, body: dict[str, Any]) -> Answer:
        parts = [part for message in body["messages"] if isinstance(message["content"], list) for part in message["content"]]
        results = [as_text(part.get("content")) for part in parts if part.get("type") == "tool_result"]
        step = self.next_step(results, bool(body.get("tools")))
        if step is None:
            block: dict[str, Any] = {"type": "text", "text": "done"}
            first, delta, reason = block | {"text": ""}, {"type": "text_delta", "text": "done"}, "end_turn"
        else:
            name, arguments = {"shell": ("Bash", {"command": step[1], "description": "one step"}),
                               "write": ("Write", {"file_path": step[1], "content": step[-1]}),
                               "read": ("Read", {"file_path": step[1]}), "mcp": mcp_call(step, body)}[step[0]]
            block = {"type": "tool_use", "id": f"toolu_{len(results):04}", "name": name, "input": arguments}
            first, delta, reason = block | {"input": {}}, {"type": "input_json_delta", "partial_json": json.dumps(arguments)}, "tool_use"
        usage = {"input_tokens": 10, "output_tokens": 10}
        message = {"id": f"msg_{len(results)}", "type": "message", "role": "assistant", "model": body.get("model"), "content": [],
                   "stop_reason": None, "stop_sequence": None, "usage": usage}
        if not body.get("stream"):
            return message | {"content": [block], "stop_reason": reason}
        events = ({"type": "message_start", "message": message}, {"type": "content_block_start", "index": 0, "content_block": first},
                  {"type": "content_block_delta", "index": 0, "delta": delta}, {"type": "content_block_stop", "index": 0},
                  {"type": "message_delta", "delta": {"stop_reason": reason, "stop_sequence": None}, "usage": usage}, {"type": "message_stop"})
        return [f"event: {one['type']}\ndata: {json.dumps(one)}\n\n" for one in events]

    def responses(self, body: dict[str, Any]) -> Answer:
        said = [one for one in body.get("input", []) if isinstance(one, dict)]
        results = [as_text(one.get("output")) for one in said if one.get("type", "").endswith("_call_output")]
        names = {tool.get("name") for tool in body.get("tools", [])}
        step = self.next_step(results, bool(names))
        call = f"call_{len(results):04}"
        if step is None:
            text = {"type": "output_text", "text": "done", "annotations": []}
            item: dict[str, Any] = {"type": "message", "role": "assistant", "id": call, "status": "completed", "content": [text]}
        else:
            command = {"shell": step[1], "read": f"cat {step[1]}", "write": f"apply_patch <<'END'\n{patch_of(step)}END\n", "mcp": ""}[step[0]]
            name, arguments = ("exec_command", {"cmd": command}) if "exec_command" in names else ("shell_command", {"command": command})
            item = {"type": "function_call", "id": f"f{call}", "call_id": call, "name": name, "arguments": json.dumps(arguments),
                    "status": "completed"}
            if step[0] == "mcp":
                space = next(one for one in body["tools"] if one["type"] == "namespace" and one["name"].endswith("callgate"))
                item |= {"namespace": space["name"], "name": step[1], "arguments": step[2]}
        response = {"id": f"resp_{len(results)}", "object": "response", "model": body.get("model"), "output": [], "status": "in_progress"}
        usage = {"input_tokens": 10, "input_tokens_details": {"cached_tokens": 0}, "output_tokens": 10,
                 "output_tokens_details": {"reasoning_tokens": 0}, "total_tokens": 20}
        whole = response | {"status": "completed", "output": [item], "usage": usage}
        if not body.get("stream"):
            return whole
        events: list[dict[str, Any]] = [
            {"type": "response.created", "response": response},
            {"type": "response.output_item.added", "output_index": 0, "item": item | {"status": "in_progress"}},
            {"type": "response.output_item.done", "output_index": 0, "item": item}, {"type": "response.completed", "response": whole}]
        return [f"event: {one['type']}\ndata: {json.dumps(one | {'sequence_number': at})}\n\n" for at, one in enumerate(events)]

    def chat(self, body: dict[str, Any]) -> Answer:
        messages = body.get("messages", [])
        results = [as_text(one.get("content")) for one in messages if one.get("role") == "tool"]
        tools = [tool[tool["type"]] for tool in body.get("tools", [])]
        names = {tool["name"] for tool in tools}
        step = self.next_step(results, bool(names))
        if step is None and names == {"bash"}:
            step = ("shell", "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT")  # by this mini-swe-agent ends
        message: dict[str, Any] = {"role": "assistant", "content": "done"}
        if self.text is not None and not names:
            message["content"] = self.text("\n".join(as_text(one.get("content")) for one in messages))
        reason = "stop"
        if step is not None:
            name, arguments = mcp_call(step, body) if step[0] == "mcp" else chat_call(step, tools)
            said = {"input": arguments["patch"]} if "patch" in arguments else {"arguments": json.dumps(arguments)}
            kind = "custom" if "patch" in arguments else "function"
            call = {"id": f"call_{len(results):04}", "type": kind, kind: {"name": name, **said}}
            message, reason = {"role": "assistant", "content": None, "tool_calls": [call]}, "tool_calls"
        base = {"id": f"chat-{len(results)}", "created": 1, "model": body.get("model")}
        usage = {"prompt_tokens": 10, "completion_tokens": 10, "total_tokens": 20}
        if not body.get("stream"):
            return base | {"object": "chat.completion", "choices": [{"index": 0, "message": message, "finish_reason": reason}], "usage": usage}
        for one in message.get("tool_calls", []):
            one["index"] = 0
        chunk = base | {"object": "chat.completion.chunk"}
        return [f"data: {json.dumps(one)}\n\n" for one in (
            chunk | {"choices": [{"index": 0, "delta": message, "finish_reason": None}]},
            chunk | {"choices": [{"index": 0, "delta": {}, "finish_reason": reason}], "usage": usage})] + ["data: [DONE]\n\n"]

    def gemini(self, body: dict[str, Any], streamed: bool) -> Answer:
        parts = [part for content in body.get("contents", []) for part in content.get("parts", [])]
        results = [as_text(part["functionResponse"].get("response")) for part in parts if "functionResponse" in part]
        step = self.next_step(results, bool(body.get("tools")))
        if step is None:
            words = "done"
            if body.get("generationConfig", {}).get("responseMimeType") == "application/json":
                words = json.dumps({"reasoning": "one step", "next_speaker": "user", "complexity_score": 1, "model_choice": "flash"})
            part: dict[str, Any] = {"text": words}
        else:
            name, arguments = {"shell": ("run_shell_command", {"command": step[1], "description": "one step", "is_background": False}),
                               "write": ("write_file", {"file_path": step[1], "content": step[-1]}),
                               "read": ("read_file", {"file_path": step[1]}), "mcp": mcp_call(step, body)}[step[0]]
            part = {"functionCall": {"name": name, "args": arguments, "id": f"call_{len(results):04}"}}
        whole = {"candidates": [{"content": {"role": "model", "parts": [part]}, "finishReason": "STOP", "index": 0}],
                 "usageMetadata": {"promptTokenCount": 10, "candidatesTokenCount": 10, "totalTokenCount": 20}, "modelVersion": "m"}
        return [f"data: {json.dumps(whole)}\n\n"] if streamed else whole


def mcp_call(step: Step, body: dict[str, Any]) -> tuple[str, Any]:
    """Agents give such a tool a longer name. It may stand in their words alone, if they offer the tool on demand."""
    found = re.findall(rf"[\w-]*{step[1]}\b", re.sub(r"\\+n", " ", json.dumps(body))) if step[0] == "mcp" else [""]
    return max(found, key=len, default=f"callgate___{step[1]}"), json.loads(step[-1]) if step[0] == "mcp" else {}


def patch_of(step: Step) -> str:
    lines = "".join(f"+{line}\n" for line in step[-1].splitlines())
    return f"*** Begin Patch\n*** Add File: {step[1]}\n{lines}*** End Patch\n"


def chat_call(step: Step, tools: list[dict[str, Any]]) -> tuple[str, dict[str, Any]]:
    """A step in the words of one of the agents that speak Chat Completions: the first tool that takes these arguments."""
    what = {"shell": {"command": step[1], "description": "one step", "is_background": False, "commands": [step[1]], "summary": "one step",
                      "riskLevel": "low", "riskLevelReason": "a test"},
            "write": {one: step[1] for one in ("path", "file_path", "filePath", "filepath")}
            | {one: step[-1] for one in ("content", "file_text", "new_text")},
            "read": {one: step[1] for one in ("path", "file_path", "filePath", "filepath")} | {"files": [{"path": step[1]}]}}[step[0]]
    names = {"shell": ("run_shell_command", "bash", "Bash", "Execute", "run_commands"),
             "write": ("write_file", "write", "Write", "create", "Create", "editor"),
             "read": ("read_file", "read", "Read", "view", "read_files")}[step[0]]
    for tool in tools:
        schema = tool.get("parameters") or {}
        if tool["name"] in names and set(schema.get("required") or ()) <= set(what):
            return tool["name"], {name: value for name, value in what.items() if name in schema["properties"]}
    if any(tool["name"] == "apply_patch" for tool in tools):
        return "apply_patch", {"patch": patch_of(step)}
    # mini-swe-agent has a shell alone.
    return chat_call(("shell", f"cat {step[1]}" if step[0] == "read" else f"cat > {step[1]} <<'END'\n{step[-1]}END\n"), tools)


def as_text(content: Any) -> str:
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "\n".join(as_text(one.get("text", one) if isinstance(one, dict) else one) for one in content)
    return "" if content is None else json.dumps(content)
