"""The type of the setting `shares`: classes of cgroups, and how much fast memory each has."""

from tierd import units
from tierd.configuration import valuetypes
from tierd.configuration.config import REST, ShareClass
from tierd.configuration.valuetypes import Key, ParsedValue, ValueType
from tierd.configuration.yamltext import (
    FilePlace,
    Problem,
    YamlList,
    YamlMapping,
    YamlNode,
    YamlScalar,
    YamlUnusable,
    shown,
)

WEIGHT_MAX = 10_000

# Each class has three schemes for each pair of nodes, and each tick reads their statistics.
CLASSES_MAX = 16

KEYS = ("paths", "floor", "ceiling", "weight")
EXAMPLE = "such as web: {paths: [/web.slice], floor: 20%}"


def shares() -> ValueType:
    """Return the type for shares by name. A later file replaces a class of the same name."""
    allowed = f"at most {CLASSES_MAX} classes by name, each with paths, and floor, ceiling, weight"
    return ValueType(allowed, _shares, _write, merge=_merge)


def _shares(node: YamlNode) -> ParsedValue:
    if isinstance(node, YamlScalar) and node.is_null:
        return ParsedValue(())
    if not isinstance(node, YamlMapping):
        return ParsedValue(problems=(Problem(node.place, f"expected classes by name, {EXAMPLE}"),))
    problems: list[Problem] = []
    places: list[tuple[Key, FilePlace]] = []
    found = []
    for name, body in node.entries:
        if not valuetypes.is_class_name(name.text):
            said = f"expected a name of letters, digits, - and _, found {shown(name.text)}"
            problems.append(Problem(name.place, said))
        elif name.text == REST:
            problems.append(
                Problem(name.place, f"expected another name: {REST} is all other memory")
            )
        elif not isinstance(body, YamlMapping):
            if not isinstance(body, YamlUnusable):
                problems.append(Problem(body.place, f"{name.text}: expected paths, {EXAMPLE}"))
        else:
            places.append(((name.text,), name.place))
            found.append(_class(name, body, problems))
    if len(found) > CLASSES_MAX:
        problems.append(Problem(node.place, f"expected at most {CLASSES_MAX} classes"))
    return ParsedValue(tuple(found), tuple(problems), tuple(places))


def _class(name: YamlScalar, body: YamlMapping, problems: list[Problem]) -> ShareClass:
    paths: tuple[str, ...] = ()
    numbers: dict[str, int] = {}
    for key, node in body.entries:
        if key.text not in KEYS:
            said = f"{name.text}: expected {', '.join(KEYS)}, found {shown(key.text)}"
            problems.append(Problem(key.place, said))
        elif key.text == "paths":
            paths = tuple(_paths(name.text, node, problems))
        else:
            number = _number(name.text, key.text, node, problems)
            if number is not None:
                numbers[key.text] = number
    if not paths and not problems:
        problems.append(Problem(name.place, f"{name.text}: expected paths, {EXAMPLE}"))
    floor, ceiling = numbers.get("floor"), numbers.get("ceiling")
    if floor is not None and ceiling is not None and floor > ceiling:
        problems.append(Problem(name.place, f"{name.text}: its floor is above its ceiling"))
    return ShareClass(name.text, paths, floor, ceiling, numbers.get("weight", 100))


def _paths(name: str, node: YamlNode, problems: list[Problem]) -> list[str]:
    found = []
    for entry in node.nodes if isinstance(node, YamlList) else (node,):
        if isinstance(entry, YamlUnusable):
            continue
        text = entry.text if isinstance(entry, YamlScalar) and not entry.is_null else ""
        wrong = valuetypes.cgroup_path_error(text, patterns=True)
        if not wrong and any(sign in text.split("/")[1] for sign in "*?["):
            wrong = f"expected a first part without a pattern, found {shown(text)}"
        if wrong:
            problems.append(Problem(entry.place, f"{name}: {wrong}"))
        else:
            found.append(text)
    return found


def _number(name: str, key: str, node: YamlNode, problems: list[Problem]) -> int | None:
    text = node.text if isinstance(node, YamlScalar) else ""
    try:
        if key != "weight":
            return units.parse_percent(text)
        if text.isdecimal() and 1 <= int(text[:9]) <= WEIGHT_MAX:
            return int(text)
        raise ValueError(f"expected a weight from 1 to {WEIGHT_MAX}, found {shown(text)}")
    except ValueError as error:
        if not isinstance(node, YamlUnusable):
            problems.append(Problem(node.place, f"{name}: {key}: {error}"))
        return None


def _write(classes: tuple[ShareClass, ...]) -> str:
    return "{" + ", ".join(f"{valuetypes.quoted(one.name)}: {_body(one)}" for one in classes) + "}"


def _body(one: ShareClass) -> str:
    said = [f"paths: [{', '.join(map(valuetypes.quoted, one.paths))}]"]
    if one.floor_bp is not None:
        said.append(f"floor: {units.format_percent(one.floor_bp)}")
    if one.ceiling_bp is not None:
        said.append(f"ceiling: {units.format_percent(one.ceiling_bp)}")
    if one.weight != ShareClass("", ()).weight:
        said.append(f"weight: {one.weight}")
    return "{" + ", ".join(said) + "}"


def _merge(
    earlier: tuple[ShareClass, ...], later: tuple[ShareClass, ...]
) -> tuple[ShareClass, ...]:
    by_name = {one.name: one for one in (*earlier, *later)}
    return tuple(by_name.values())
