"""Messages of the client: JSON without the module `json`, and the answers of the bridge itself."""

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
NOT_CONNECTED = -32000

MAX_HEADER_LETTERS = 200
_VERSION_FIELD = "io.modelcontextprotocol/protocolVersion"


class _ScannerSettings:
    """What the scanner of `_json` reads; the same as of a plain `json.loads`."""

    strict = True
    object_hook = None
    object_pairs_hook = None
    parse_float = float
    parse_int = int
    parse_constant = float


def _make_parser() -> "Callable[[str], Any]":
    """Return `json.loads`, or the scanner that it calls, which needs no import of regexes."""
    try:
        from _json import make_scanner  # noqa: PLC0415 - CPython has it, others may not

        scan = make_scanner(_ScannerSettings())  # type: ignore[arg-type] # its stub is too narrow
    except (ImportError, AttributeError, TypeError):
        return _parse_with_json

    def parse(text: str) -> "Any":  # noqa: ANN401 - any JSON
        text = text.strip(" \t\r\n")
        try:
            value, end = scan(text, 0)
        except StopIteration:
            raise ValueError("no value") from None
        except SystemError:  # it wants to raise an error of `json`
            return _parse_with_json(text)
        if end != len(text):
            raise ValueError("text after the value")
        return value

    return parse


def _parse_with_json(text: str) -> "Any":  # noqa: ANN401 - any JSON
    import json  # noqa: PLC0415 - slow, see rule 1

    return json.loads(text)


parse_json = _make_parser()


def quote(text: str) -> str:
    """Return a text as JSON."""
    try:
        from _json import encode_basestring_ascii  # noqa: PLC0415 - see _make_parser
    except ImportError:
        from json.encoder import encode_basestring_ascii  # noqa: PLC0415 - as above
    return encode_basestring_ascii(text)


def error_line(message_id: object, code: int, text: str) -> bytes:
    """Return the answer of a request that has failed."""
    shown = "null"
    if isinstance(message_id, str):
        shown = quote(message_id)
    elif isinstance(message_id, int | float) and not isinstance(message_id, bool):
        shown = str(message_id)
    error = f'{{"code":{code},"message":{quote(text)}}}'
    return f'{{"jsonrpc":"2.0","id":{shown},"error":{error}}}\n'.encode()


class ClientMessage:
    """A message of the client: its text, and what the bridge has to know of it."""

    def __init__(self, line: bytes) -> None:
        self.line = line
        try:
            fields = parse_json(line.decode())
        except (ValueError, RecursionError):
            raise MalformedLine(PARSE_ERROR, "the line is not JSON") from None
        fields = fields if isinstance(fields, dict) else {}
        self.method = fields.get("method")
        self.is_request = self.method is not None and "id" in fields
        self.id = fields.get("id")
        params = fields.get("params")
        self.params = params if isinstance(params, dict) else {}

    def headers(self, version: "str | None") -> "list[tuple[str, str]]":
        """Return the headers that repeat parts of the message; `version` is the agreed one."""
        meta = self.params.get("_meta")
        if isinstance(meta, dict) and _VERSION_FIELD in meta:
            version = meta[_VERSION_FIELD]
        said = [("mcp-protocol-version", version), ("mcp-method", self.method)]
        name = self.params.get("name")
        if self.method == "tools/call" and isinstance(name, str):
            said.append(("mcp-name", name if _is_plain(name) else _encoded(name)))
        return [(name, value) for name, value in said if _fits_header(value)]  # type: ignore[misc] # they are texts then


def _is_plain(text: str) -> bool:
    """Return True if the text stands for itself in a header."""
    return _fits_header(text) and text == text.strip() and not text.startswith("=?")


def _encoded(text: str) -> str:
    """Return the form that the protocol has for other texts."""
    import binascii  # noqa: PLC0415 - rarely needed

    data = binascii.b2a_base64(text.encode(errors="replace"), newline=False).decode()
    return f"=?base64?{data}?="


def _fits_header(value: object) -> bool:
    return (
        isinstance(value, str)
        and value.isascii()
        and value.isprintable()
        and 0 < len(value) <= MAX_HEADER_LETTERS
    )


class MalformedLine(Exception):
    """A line that is no message; the code and the text are those of the answer."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code


def fields_of(body: bytes) -> "dict[str, Any]":
    """Return the fields of an object of JSON; empty for anything else."""
    try:
        fields = parse_json(body.decode())
    except (ValueError, RecursionError):
        return {}
    return fields if isinstance(fields, dict) else {}
