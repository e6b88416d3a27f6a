"""Pages of the reference that are generated from the code when the site is built.

The command line from typer, the HTTP API from OpenAPI, settings from the fields of their classes,
and metrics from the collectors. They are written to `docs/reference/generated`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from sphinx.application import Sphinx

Pages = dict[str, str]
"""The text of each page, by its name."""
Json = dict[str, Any]

_DEVELOPERS = "*For developers whose program calls the service.*"
_HTTP_INTRODUCTION = """\
`entice serve` listens at `http://127.0.0.1:8000`, or at the address that `--host` and `--port`
name. Bodies and responses are JSON. Amounts of money are whole numbers of the currency's minor
unit, such as cents; times are RFC 3339 in UTC.

- **Authentication.** `Authorization: Bearer entice_…` with an
  [API key](../../how-to/keys.md#api-keys). As long as no key exists, a
  [token](../../how-to/keys.md#access-without-keys) takes its place. Only `/healthz` and `/readyz`
  need neither. Each page names the roles that a request requires.
- **Errors** are problem details (RFC 9457, `application/problem+json`), a
  [Problem](type-problem.md) with `type`, `title`, `status` and `detail`. A rejected request changes
  nothing.
- **Retries.** A write can carry an `Idempotency-Key`. The same request with the same key gets the
  same response for a week and is executed once; another request with that key is rejected (422).
- **Clients.** [`entice.client`](../python-tools.md#client-of-the-service) is one in Python. For
  other languages generate one from `/openapi.json`, which has the same descriptions.

```console
$ curl -H 'Authorization: Bearer entice_…' http://127.0.0.1:8000/v1/campaigns/c_…/offers \\
  -H 'Idempotency-Key: visit-4711' --json '{"player": "visitor 18"}'
```

[Your first campaign](../../tutorials/first-campaign.md) makes an offer step by step.
"""


def generate_all() -> Pages:
    """Return all generated pages."""
    return command_pages() | http_pages() | settings_pages() | {"metrics": metrics_page()}


def command_pages() -> Pages:
    """Return a page for each command, and one that lists them."""
    import typer.main

    from entice.cli.app import app

    pages, rows = {}, []
    for path, command in _commands(typer.main.get_command(app), "entice"):
        name = f"cli-{path.replace(' ', '-')}"
        context = command.make_context(path, [], resilient_parsing=True)
        usage = " ".join([path, *command.collect_usage_pieces(context)])
        options = [_option(option) for option in command.params if option.name != "help"]
        pages[name] = (
            f"# `{path}`\n\n*For people who use the command line.*\n\n"
            f"```\n{usage}\n```\n\n{command.help}\n\n"
            + (_table(("option", "default", ""), options) if options else "")
        )
        rows.append((f"[`{path}`]({name}.md)", command.get_short_help_str(200)))
    audience = "*For people who use the command line.* `entice COMMAND --help` prints the same."
    pages["cli"] = _list_page("Command line", audience, ("command", ""), rows, pages)
    return pages


def _commands(command: Any, path: str) -> Iterator[tuple[str, Any]]:
    for name, found in command.commands.items():
        if hasattr(found, "commands"):
            yield from _commands(found, f"{path} {name}")
        else:
            yield f"{path} {name}", found


def _option(option: Any) -> tuple[str, str, str]:
    is_argument = option.param_type_name == "argument"
    names = option.name.upper() if is_argument else ", ".join(option.opts)
    default = "required" if option.required else "none"
    if option.default is not None and not option.required:
        default = f"`{option.default}`"
    text = (option.help or "").replace("\\[", "[")
    if option.envvar:
        text += f" Environment variable: `{option.envvar}`."
    return f"`{names}`", default, text


def http_pages() -> Pages:
    """Return a page for each route and each type of the HTTP API, and one that lists the routes."""
    from entice.service.http.app import ROUTES
    from entice.service.http.openapi import describe
    from entice.studio.http import simulations, trust

    document = msgspec.json.decode(describe([*ROUTES, *simulations.ROUTES, *trust.ROUTES]))
    types: dict[str, Json] = document["components"]["schemas"]
    pages, routes = {}, []
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            name = f"http-{operation['operationId'].replace('_', '-')}"
            title = f"{method.upper()} {path}"
            pages[name] = _operation(title, operation)
            routes.append(f"- [`{title}`]({name}.md): {operation['summary']}\n")
    pages |= {_type_page(name): _type(name, schema) for name, schema in types.items()}
    introduction = f"# HTTP API\n\n{_DEVELOPERS}\n\n{_HTTP_INTRODUCTION}\n## Requests\n\n"
    return pages | {"http": introduction + "".join(routes) + "\n" + _hidden_contents(pages)}


def _operation(title: str, operation: Json) -> str:
    text = f"# `{title}`\n\n{_DEVELOPERS}\n\n{operation['summary']}. {operation['description']}\n"
    if operation.get("parameters"):
        rows = [
            (f"`{p['name']}`", p["in"], _type_name(p["schema"]), p.get("description", ""))
            for p in operation["parameters"]
        ]
        text += "\n" + _table(("parameter", "in", "type", ""), rows)
    if "requestBody" in operation:
        [content] = operation["requestBody"]["content"].values()
        text += f"\nBody: {_type_name(content['schema'])}.\n{_examples(content)}"
    statuses = [(s, response["description"]) for s, response in operation["responses"].items()]
    text += "\n" + _table(("status", ""), sorted(statuses))
    success = next(r for s, r in operation["responses"].items() if s < "300")
    content = next(iter(success["content"].values()))
    media_types = ", ".join(f"`{kind}`" for kind in success["content"])
    kind = _type_name(content["schema"])
    return text + f"\nResponse ({media_types}): {kind}.\n{_examples(content)}"


def _examples(content: Json) -> str:
    """Return the first example of a body, as JSON."""
    for example in content.get("examples", {}).values():
        if isinstance(example["value"], dict | list):
            shown = msgspec.json.format(msgspec.json.encode(example["value"]), indent=2).decode()
            return f"\n```json\n{shown}\n```\n"
    return ""


def _type_page(name: str) -> str:
    return f"type-{name.lower()}"


def _type(name: str, schema: Json) -> str:
    text = f"# {name}\n\n{_DEVELOPERS} A type of the [HTTP API](http.md).\n\n"
    text += f"{schema.get('description', '')}\n\n"
    if "enum" in schema:
        return text + "".join(f"- `{value}`\n" for value in schema["enum"])
    required = schema.get("required", [])
    rows = [
        (
            f"`{field}`",
            _type_name(content),
            "yes" if field in required else "",
            content.get("description", ""),
        )
        for field, content in schema.get("properties", {}).items()
    ]
    return text + (_table(("field", "type", "required", ""), rows) if rows else "")


def _type_name(schema: Json) -> str:
    """Describe the type of a field, with links to the pages of other types."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f"[{name}]({_type_page(name)}.md)"
    for key in ("anyOf", "oneOf"):
        if key in schema:
            return " or ".join(dict.fromkeys(_type_name(part) for part in schema[key]))
    if "enum" in schema:
        return ", ".join(f"`{value}`" for value in schema["enum"])
    if schema.get("type") == "array":
        return f"list of {_type_name(schema.get('items', {}))}"
    return str(schema.get("type", "any"))


def settings_pages() -> Pages:
    """Return the tables of the settings of campaigns, plans and studies."""
    from entice.planner.spec import Plan
    from entice.service.domain.spec import CampaignSpec
    from entice.study.spec import Study

    return {
        "settings-campaign": _settings(
            "Settings of a campaign", "*For people who run a platform.*", CampaignSpec
        ),
        "settings-plan": _settings("Settings of a plan", "*For people who plan a campaign.*", Plan),
        "settings-study": _settings("Settings of a study", "*For people who run studies.*", Study),
    }


def _settings(title: str, audience: str, kind: type[msgspec.Struct]) -> str:
    from entice.service.http.openapi import field_docstrings

    texts = field_docstrings(kind)
    rows = [(f"`{f.name}`", _default(f), texts[f.name]) for f in msgspec.structs.fields(kind)]
    return f"# {title}\n\n{audience}\n\n" + _table(("setting", "default", ""), rows)


def _default(field: msgspec.structs.FieldInfo) -> str:
    if field.required:
        return "required"
    default = field.default
    if default is msgspec.NODEFAULT:
        assert callable(field.default_factory)
        default = field.default_factory()
    return "none" if default is None else f"`{default!r}`"


def metrics_page() -> str:
    """Return the table of the service's metrics, from a scrape of a service without campaigns."""
    from entice.service.operations.metrics import Metrics, ServiceGauges

    gauges = ServiceGauges(
        campaigns=[], ratings=[], alerts={}, damaged=0, webhooks=[], clock_ahead=0.0
    )
    text = Metrics(lambda: gauges, lambda: 0).text().decode()
    kinds = dict(re.findall(r"^# TYPE (\w+) (\w+)$", text, re.MULTILINE))
    found = re.findall(r"^# HELP (\w+) (.+)$", text, re.MULTILINE)
    rows = [(f"`{name}`", kinds[name], description) for name, description in sorted(found)]
    return (
        "# Metrics\n\n*For operators of the service.* `GET /metrics` returns them in Prometheus' "
        "format; [monitoring](../../how-to/monitoring.md) says which of them to watch.\n\n"
        + _table(("metric", "type", ""), rows)
    )


def _list_page(
    title: str, audience: str, head: tuple[str, ...], rows: Sequence[tuple[str, ...]],
    pages: Mapping[str, str],
) -> str:  # fmt: skip
    return f"# {title}\n\n{audience}\n\n{_table(head, rows)}\n{_hidden_contents(pages)}"


def _hidden_contents(pages: Mapping[str, str]) -> str:
    tree = "\n".join(pages)
    return f"```{{toctree}}\n:hidden:\n\n{tree}\n```\n"


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [head, tuple("---" for _ in head), *rows]
    return "".join(f"| {' | '.join(_cell(cell) for cell in line)} |\n" for line in lines)


def _cell(text: str) -> str:
    return " ".join(text.replace("``", "`").replace("|", "\\|").split())


def _write(app: Sphinx) -> None:
    folder = Path(app.srcdir) / "reference" / "generated"
    folder.mkdir(parents=True, exist_ok=True)
    pages = generate_all()
    for old in folder.glob("*.md"):
        if old.stem not in pages:
            old.unlink()
    for name, text in pages.items():
        file = folder / f"{name}.md"
        if not file.exists() or file.read_text() != text:  # Sphinx reads changed files again
            file.write_text(text)


def setup(app: Sphinx) -> dict[str, bool]:
    """Write the pages before Sphinx looks for its sources."""
    app.connect("builder-inited", _write, priority=100)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
