"""The script as a LangChain chat model, which calls one tool with each command."""
from __future__ import annotations

from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult


class Scripted(BaseChatModel):
    script: object
    tool: str

    @property
    def _llm_type(self):
        return "scripted"

    def bind_tools(self, tools, **_):
        return self

    def _generate(self, messages, stop=None, run_manager=None, **_):
        last = messages[-1].text if isinstance(messages[-1], ToolMessage) else None
        command = self.script.next(last)
        calls = [{"name": self.tool, "args": {"command": command}, "id": f"call{len(self.script.read)}"}] if command else []
        return ChatResult(generations=[ChatGeneration(message=AIMessage("" if command else "done", tool_calls=calls))])
