"""Find the lines of Python code that need CUDA, or that Neuron wants otherwise; nothing is run."""

from __future__ import annotations

import ast
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any

from bot.model.claims import CodeSign, Package, normal

_GUARD = "torch.cuda.is_available"
"""What it guards never runs on Neuron."""


@dataclass(frozen=True)
class Finding:
    """State a line of code that has to change, and why."""

    file: str
    line: int
    kind: str
    reason: str
    instead: str
    source: str


@dataclass(frozen=True)
class _Seen:
    """Hold one thing that the code does: a name, a method, a text or an argument, and its line."""

    finds: str
    word: str
    line: int
    arguments: tuple[str, ...] = ()


@dataclass
class _Reader(ast.NodeVisitor):
    """Read what a file does, each name by what was imported, in the branches that Neuron takes."""

    names: dict[str, str] = field(default_factory=dict)
    seen: list[_Seen] = field(default_factory=list)
    texts: dict[str, ast.Constant] = field(default_factory=dict)
    """The text that each name was given last, as a device too."""

    def visit_Import(self, node: ast.Import) -> None:
        for module in node.names:
            first = module.name.partition(".")[0]
            self.names[module.asname or first] = module.name if module.asname else first
            self._add("import", module.name, node)
            self._add("name", module.name, node)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        self._add("import", node.module or "", node)
        for name in node.names:
            path = f"{node.module}.{name.name}"
            self.names[name.asname or name.name] = path
            self._add("name", path, node)

    def visit_If(self, node: ast.If | ast.IfExp) -> None:
        if not any(self._path(part) == _GUARD for part in ast.walk(node.test)):
            self.generic_visit(node)
            return

        sides = [x if isinstance(x, list) else [x] for x in (node.body, node.orelse)]
        guarded, branch = sides[::-1] if isinstance(node.test, ast.UnaryOp) else sides
        for part in branch:
            self.visit(part)

        # A device that only CUDA replaces was chosen before.
        nodes = (x for part in branch or guarded for x in ast.walk(part))
        assignments = [x for x in nodes if isinstance(x, ast.Assign)]
        chosen = [self._text(x) for x in ([x.value for x in assignments] or branch)]
        if not branch:
            chosen = [self.texts.get(ast.unparse(x.targets[0])) for x in assignments]
        for text in filter(None, chosen):
            self._add("fallback", str(text.value), text)

    visit_IfExp = visit_If  # noqa: N815 (a name of the visitor)

    def _text(self, value: ast.AST) -> ast.Constant | None:
        """Return the text that a value is, or that a device is made of."""
        if isinstance(value, ast.Call) and self._path(value.func) == "torch.device":
            value = value.args[0] if value.args else value
        if isinstance(value, ast.Constant) and isinstance(value.value, str):
            return value
        return None

    def visit_Assign(self, node: ast.Assign) -> None:
        if text := self._text(node.value):
            self.texts[ast.unparse(node.targets[0])] = text

        # A name that a function is put in place of is not called.
        replaced = isinstance(node.value, ast.Lambda)
        for part in (*(() if replaced else node.targets), node.value):
            self.visit(part)

    def visit_Call(self, node: ast.Call) -> None:
        constants = {
            f"{keyword.arg}={keyword.value.value!s}": keyword.value
            for keyword in node.keywords
            if isinstance(keyword.value, ast.Constant)
        }
        for argument, value in constants.items():
            self._add("argument", argument, value)
        path = self._path(node.func)
        if path:
            self._add("name", path, node, tuple(constants))
        elif isinstance(node.func, ast.Attribute):
            self._add("method", node.func.attr, node.func)
            self.visit(node.func.value)
        else:
            self.visit(node.func)
        for part in (*node.args, *node.keywords):
            self.visit(part)

    def visit_Attribute(self, node: ast.Attribute | ast.Name) -> None:
        if path := self._path(node):
            self._add("name", path, node)
        else:
            self.generic_visit(node)

    visit_Name = visit_Attribute  # noqa: N815 (a name of the visitor)

    def visit_Constant(self, node: ast.Constant) -> None:
        if isinstance(node.value, str):
            self._add("text", node.value, node)

    # What is compared, looked up or only written is no choice of a device.
    def visit_Compare(self, node: ast.Compare) -> None:
        for part in (node.left, *node.comparators):
            if not isinstance(part, ast.Constant):
                self.visit(part)

    def visit_Dict(self, node: ast.Dict) -> None:
        for value in node.values:
            self.visit(value)

    def visit_Expr(self, node: ast.Expr) -> None:
        if not isinstance(node.value, ast.Constant):
            self.visit(node.value)

    def _add(
        self, finds: str, word: str, node: ast.expr | ast.stmt, arguments: tuple[str, ...] = ()
    ) -> None:
        # A call that spans lines is named by the one on which its name ends.
        line = getattr(node, "func", node).end_lineno or node.lineno
        self.seen.append(_Seen(finds, word, line, arguments))

    def _path(self, node: ast.AST) -> str:
        """Return the whole name of what was imported: `torch.cuda.amp.autocast`; else ""."""
        if isinstance(node, ast.Name):
            return self.names.get(node.id, "")
        base = self._path(node.value) if isinstance(node, ast.Attribute) else ""
        return f"{base}.{node.attr}" if base and isinstance(node, ast.Attribute) else ""


def findings(
    file: str, text: str, signs: Sequence[CodeSign], packages: Sequence[Package]
) -> tuple[Finding, ...]:
    """Return the lines of a file that have to change, each kind once a line.

    Raise `SyntaxError` or `ValueError` for what is no Python.
    """
    reader = _Reader()
    reader.visit(ast.parse(text))
    names = {seen.word for seen in reader.seen if seen.finds in ("name", "import")}
    found: dict[tuple[int, str], Finding] = {}
    for seen in reader.seen:
        fact: CodeSign | Package | None = next(
            (sign for sign in signs if _shows(sign, seen, names)), None
        )
        if seen.finds == "import":
            name = normal(seen.word.partition(".")[0])
            fact = next((x for x in packages if fnmatchcase(name, x.name)), None)
        if fact:
            kind = fact.kind if isinstance(fact, CodeSign) else "package"
            finding = Finding(file, seen.line, kind, fact.reason, fact.instead, fact.source)
            found.setdefault((seen.line, kind), finding)

    return tuple(sorted(found.values(), key=lambda finding: (finding.line, finding.kind)))


def _shows(sign: CodeSign, seen: _Seen, names: Collection[str]) -> bool:
    """Return whether a sign is seen: what excuses it stands in its call, or anywhere in the file."""
    if sign.finds == "backward":
        if (seen.finds, seen.word) != ("method", "backward"):
            return False
        is_shown = any(fnmatchcase(name, sign.pattern) for name in names)
        excused = names
    else:
        is_shown = seen.finds == sign.finds and fnmatchcase(seen.word, sign.pattern)
        excused = seen.arguments
    return is_shown and not any(
        fnmatchcase(word, excuse) for word in excused for excuse in sign.unless.split("|")
    )


def sarif(found: Sequence[Mapping[str, Any]], version: str) -> Mapping[str, Any]:
    """Return findings, as `data` holds them, in SARIF 2.1.0, which code hosts show beside the lines."""
    kinds = {finding["kind"]: finding["reason"] for finding in found}

    return {
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [
            {
                "tool": {
                    "driver": {
                        "name": "trnbot",
                        "version": version,
                        "rules": [
                            {"id": kind, "shortDescription": {"text": reason}}
                            for kind, reason in kinds.items()
                        ],
                    }
                },
                "results": [
                    {
                        "ruleId": finding["kind"],
                        "level": "warning",
                        "message": {
                            "text": f"{finding['reason']}; on Neuron: {finding['instead']}"
                        },
                        "locations": [
                            {
                                "physicalLocation": {
                                    "artifactLocation": {"uri": finding["file"].removeprefix("./")},
                                    "region": {"startLine": finding["line"]},
                                }
                            }
                        ],
                    }
                    for finding in found
                ],
            }
        ],
    }
