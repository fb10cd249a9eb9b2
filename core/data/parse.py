"""One line of a file into one chat row, or the problems that keep it from being one.

The one idea: the training loop and the check read rows through the same function, so a file that
was reported clean cannot fail differently when it is trained on. JSON is read by pydantic's own
parser, which bounds nesting and the length of numbers and refuses NaN and lone surrogates.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from pydantic import ValidationError
from pydantic_core import ErrorDetails, from_json

from core.data.kinds import Kind
from core.data.lines import MAX_LINE_BYTES, Line, numbered_lines
from core.data.report import Code, Problem, Shape, pointer, shown
from core.data.rows import ROLES, AssistantMessage, ChatRow, PromptCompletionRow

_EXPECTED = 'Expected {"messages": [...]} or {"prompt": "...", "completion": "..."}.'
_UTF16 = (b"\xff\xfe", b"\xfe\xff")
_HINTS = {
    "missing": "Add this field.",
    "extra_forbidden": "Remove this key, or correct its spelling.",
    "role_unknown": f"Give each message a role: {', '.join(ROLES)}.",
    "arguments": "Write the arguments as a string that holds a JSON object.",
    "content": "Write the content as a string.",
    "says_nothing": "Give the message content, a refusal or tool_calls.",
    "literal_error": "Use one of the values named.",
    "part_unknown": "Only text can be trained on; remove other parts.",
}


class RowError(Exception):
    """A line is not a row that can be trained on; `problems` says why and where."""

    def __init__(self, problems: list[Problem]) -> None:
        super().__init__("; ".join(str(problem) for problem in problems[:3]))
        self.problems = problems


@dataclass(frozen=True, slots=True)
class ParsedRow:
    """A row with the shape and the line that it came from."""

    line: int
    shape: Shape
    value: Kind


def read_rows(
    chunks: Iterable[bytes], *, max_line_bytes: int = MAX_LINE_BYTES
) -> Iterator[ParsedRow]:
    """Yield the rows of a file; raises RowError at the first line that is not one."""
    for line in numbered_lines(chunks, max_line_bytes=max_line_bytes):
        yield parse_line(line)


def parse_line(line: Line) -> ParsedRow:
    """Return the row of one line; raises RowError with the problems in it, and nothing else."""
    value = _json_object(line)
    shape = _shape(line.number, value)
    try:
        match shape:
            case "chat":
                chat = ChatRow.model_validate(value)
            case "prompt_completion":
                chat = PromptCompletionRow.model_validate(value).to_chat()
    except ValidationError as error:
        details = error.errors(include_url=False, include_input=False)
        raise RowError([_problem(line.number, d) for d in details]) from error
    _check_trainable(line.number, chat)
    return ParsedRow(line.number, shape, chat)


def _refuse(line: int, code: Code, message: str, hint: str, at: str = "") -> RowError:
    return RowError([Problem(line=line, pointer=at, code=code, message=message, hint=hint)])


def _json_object(line: Line) -> dict[str, object]:
    if line.too_long:
        message = f"line is longer than {len(line.data)} bytes"
        raise _refuse(line.number, "line_too_long", message, "Split the row, or shorten it.")
    try:
        value = from_json(line.data, allow_inf_nan=False)
    except ValueError as error:
        hint = "Write one JSON object a line, in UTF-8."
        if line.data.startswith(_UTF16):
            hint = "The file is UTF-16; save it as UTF-8."
        # The parser sees one line at a time, so its own line number is always 1.
        message = str(error).replace(" at line 1 column ", " at column ")
        raise _refuse(line.number, "invalid_json", f"not JSON: {message}", hint) from error
    if not isinstance(value, dict):
        message = f"a row is a JSON object, this is a {_json_type(value)}"
        raise _refuse(line.number, "invalid_file_format", message, _EXPECTED)
    return value


def _json_type(value: object) -> str:
    names = {list: "list", str: "string", bool: "boolean", int: "number", float: "number"}
    return names.get(type(value), "null")


def _shape(line: int, value: dict[str, object]) -> Shape:
    pair = {"prompt", "completion"}
    if "messages" in value and not pair & value.keys():
        return "chat"
    if pair <= value.keys() and "messages" not in value:
        return "prompt_completion"
    keys = ", ".join(shown(key) for key in list(value)[:10]) or "none"
    message = f"neither chat messages nor a prompt/completion pair; keys: {keys}"
    raise _refuse(line, "invalid_file_format", message, _EXPECTED)


def _problem(line: int, details: ErrorDetails) -> Problem:
    kind = details["type"]
    path = [p for p in details["loc"] if not (isinstance(p, str) and p[:1] + p[-1:] == "<>")]
    if kind == "role_unknown":
        path.append("role")
    if kind == "part_unknown":
        path.append("type")
    hint = _HINTS.get(kind, "Correct the value here.")
    return Problem(
        line=line,
        pointer=pointer(path),
        code="invalid_file_format",
        message=details["msg"],
        hint=hint,
    )


def _check_trainable(line: int, chat: ChatRow) -> None:
    last = chat.messages[-1]
    assistants = [m for m in chat.messages if isinstance(m, AssistantMessage)]
    if not any(message.trained for message in assistants):
        message = "every assistant message has weight 0" if assistants else "no assistant message"
        hint = "Add an assistant message, or give one the weight 1."
        raise _refuse(line, "no_trainable_tokens", message, hint, "/messages")
    if not isinstance(last, AssistantMessage):
        at = f"/messages/{len(chat.messages) - 1}/role"
        message = f"the last message is from the {last.role}; it must be from the assistant"
        hint = "End the row with the answer to be learned."
        raise _refuse(line, "invalid_file_format", message, hint, at)
