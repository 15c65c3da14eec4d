"""Makes small faults for a module: other comparisons, numbers and calls in place of its own.

Pure: source in, mutants out, always in the same order. Messages, annotations, decorators and
asserts are left alone, because a fault there changes only words or checks.
"""

import ast
import copy
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeVar

Instead = tuple[type[ast.cmpop], ...]
COMPARISONS: dict[type[ast.cmpop], Instead] = {
    ast.Lt: (ast.LtE, ast.GtE),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
}
ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.Mult,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
}
LEFT_ALONE = (ast.JoinedStr, ast.Raise, ast.Assert, ast.Import, ast.ImportFrom)
FIELDS_LEFT_ALONE = {"annotation", "returns", "decorator_list", "type_params"}
ENDS = (ast.Return, ast.Raise, ast.Continue, ast.Break)
TEXT_MAX = 90

_Part = TypeVar("_Part", bound=ast.AST)


@dataclass(frozen=True, slots=True)
class Mutant:
    """One fault: a variant of a node. The node is found by its number in the walk of the module."""

    node: int
    variant: int
    line: int
    lines: tuple[int, int]
    """The first and the last line of the statement that it is in."""
    function: tuple[str, int] | None
    """The outermost function that it is in: the name of its code, and the line of its beginning."""
    old: str
    new: str

    @property
    def name(self) -> str:
        return f"{self.line}: {self.old} -> {self.new}"


@dataclass(frozen=True, slots=True)
class _Place:
    node: ast.AST
    statement: ast.stmt | None
    function: tuple[str, int] | None


def mutants(source: str) -> list[Mutant]:
    """Return all faults of a module."""
    found = []
    for number, place in enumerate(_places(ast.parse(source))):
        for variant, new in enumerate(_variants(place.node)):
            statement = place.statement
            assert statement is not None, "a module itself has no variants"
            found.append(
                Mutant(
                    number,
                    variant,
                    getattr(place.node, "lineno", statement.lineno),
                    (statement.lineno, _last_line(statement)),
                    place.function,
                    _text(place.node),
                    _text(new),
                )
            )
    return found


def mutated(source: str, mutant: Mutant) -> ast.Module:
    """Return the module with that fault. Its line numbers stay as they are."""
    tree = ast.parse(source)
    old = list(_places(tree))[mutant.node].node
    new = list(_variants(old))[mutant.variant]
    _Replace(old, ast.copy_location(new, old)).visit(tree)
    return ast.fix_missing_locations(tree)


class _Replace(ast.NodeTransformer):
    def __init__(self, old: ast.AST, new: ast.AST) -> None:
        self.old, self.new = old, new

    def visit(self, node: ast.AST) -> ast.AST:
        return self.new if node is self.old else self.generic_visit(node)


def _places(
    node: ast.AST,
    statement: ast.stmt | None = None,
    function: tuple[str, int] | None = None,
    scope: str = "",
) -> Iterator[_Place]:
    """Yield each node that may change, with its place.

    The defaults of a function belong to the module, because they are evaluated before any call.
    """
    if isinstance(node, ast.stmt):
        statement = node
    yield _Place(node, statement, function)
    inside = scope
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        inside = f"{scope}{node.name}"
    for name, value in ast.iter_fields(node):
        if name in FIELDS_LEFT_ALONE:
            continue
        within = function
        if isinstance(node, ast.FunctionDef) and name == "body":
            first = min([node.lineno, *(one.lineno for one in node.decorator_list)])
            within = function or (inside, first)
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST) and not isinstance(child, LEFT_ALONE):
                yield from _places(
                    child, statement, within, f"{inside}." if inside != scope else scope
                )


def _last_line(statement: ast.stmt) -> int:
    """Return the last line of a statement; of a compound statement, the last line of its head."""
    body: list[ast.stmt] = getattr(statement, "body", [])
    if body:
        return max(statement.lineno, body[0].lineno - 1)
    return statement.end_lineno or statement.lineno


def _text(node: ast.AST) -> str:
    text = ast.unparse(node)
    if isinstance(node, ast.If | ast.While):
        text = " ".join(text.split())
    first = text.splitlines()[0] if text else "None"
    return first if len(first) <= TEXT_MAX else f"{first[: TEXT_MAX - 3]}..."


def _with(node: ast.AST, **fields: object) -> ast.AST:
    new = copy.copy(node)
    for name, value in fields.items():
        setattr(new, name, value)
    return new


def _variants(node: ast.AST) -> Iterator[ast.AST]:
    match node:
        case ast.Compare():
            yield from _comparisons(node)
        case ast.BoolOp() | ast.UnaryOp() | ast.BinOp() | ast.AugAssign():
            yield from _operations(node)
        case ast.Constant():
            yield from _constants(node.value)
        case ast.If() | ast.While() | ast.IfExp():
            yield from _branches(node)
        case ast.Expr(value=ast.Call() | ast.YieldFrom() | ast.Yield()):
            yield ast.Pass()
        case ast.Call():
            yield from _calls(node)
        case ast.comprehension():
            for number in range(len(node.ifs)):
                yield _with(node, ifs=_less(node.ifs, number))
        case _:
            pass


def _operations(node: ast.BoolOp | ast.UnaryOp | ast.BinOp | ast.AugAssign) -> Iterator[ast.AST]:
    if isinstance(node, ast.BoolOp):
        yield _with(node, op=ast.Or() if isinstance(node.op, ast.And) else ast.And())
    elif isinstance(node, ast.UnaryOp):
        yield node.operand
    elif type(node.op) in ARITHMETIC:
        yield _with(node, op=ARITHMETIC[type(node.op)]())


def _comparisons(node: ast.Compare) -> Iterator[ast.AST]:
    for number, op in enumerate(node.ops):
        for instead in COMPARISONS[type(op)]:
            ops = [*node.ops[:number], instead(), *node.ops[number + 1 :]]
            yield _with(node, ops=ops)


def _constants(value: object) -> Iterator[ast.AST]:
    found: list[int | float] = []
    if isinstance(value, bool):
        found = [not value]
    elif isinstance(value, int):
        found = [value + 1, value - 1, 0, value * 10] if value > 1 else [1 - value, value + 1]
    elif isinstance(value, float):
        found = [0.0, value * 10, value / 10]
    yield from (ast.Constant(one) for one in dict.fromkeys(found) if one != value)


def _branches(node: ast.If | ast.While | ast.IfExp) -> Iterator[ast.AST]:
    """Yield variants of a condition: a guard is removed, and a bare condition is negated."""
    if isinstance(node, ast.If) and not node.orelse and isinstance(node.body[-1], ENDS):
        yield _with(node, body=[ast.copy_location(ast.Pass(), node.body[0])])
    if not isinstance(node.test, ast.Compare | ast.BoolOp | ast.UnaryOp | ast.Constant):
        negated = ast.copy_location(ast.UnaryOp(ast.Not(), node.test), node.test)
        yield _with(node, test=negated)


def _calls(node: ast.Call) -> Iterator[ast.AST]:
    """Yield variants of a call: one without each keyword argument.

    `min` and `max` are swapped, or replaced by one of their two arguments.
    """
    for number, keyword in enumerate(node.keywords):
        if keyword.arg is not None:
            yield _with(node, keywords=_less(node.keywords, number))
    if isinstance(node.func, ast.Name) and node.func.id in ("min", "max"):
        other = "max" if node.func.id == "min" else "min"
        yield _with(node, func=ast.copy_location(ast.Name(other, ast.Load()), node.func))
        if len(node.args) == 2 and not node.keywords:
            yield from node.args


def _less(many: list[_Part], number: int) -> list[_Part]:
    return [*many[:number], *many[number + 1 :]]
