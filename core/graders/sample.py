"""What a model wrote, as graders see it: the namespace ``sample`` of templates and of grade()."""

import json
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Sample:
    """One answer. ``output_tools`` are its tool calls as in a chat message.

    With ``json_output`` the text is read as JSON too; where that fails there is no ``output_json``.
    """

    output_text: str
    output_tools: tuple[dict[str, Any], ...] = ()
    json_output: bool = False

    def view(self) -> dict[str, Any]:
        """The namespace, of decoded JSON alone."""
        tools = list(self.output_tools)
        message = {"role": "assistant", "content": self.output_text, "tool_calls": tools}
        view = {
            "output_text": self.output_text,
            "output_tools": tools,
            "choices": [{"index": 0, "message": message}],
        }
        if self.json_output:
            try:
                view["output_json"] = json.loads(self.output_text)
            except (ValueError, RecursionError):  # not JSON, or nested past any use
                return view
        return view
