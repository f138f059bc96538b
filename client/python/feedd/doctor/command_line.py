"""The options that argparse gives a script."""

import ast


def options_of(calls: list[ast.Call]) -> dict[str, ast.expr | None]:
    """Defaults of the options by name; None for an option that has no default or more than one."""
    found: dict[str, ast.expr | None] = {}
    for call in calls:
        flags = [one.value for one in call.args if isinstance(one, ast.Constant) and isinstance(one.value, str)]
        if not isinstance(call.func, ast.Attribute) or call.func.attr != "add_argument" or not flags:
            continue
        name, default = _option(call, flags)
        if name in found and (default is None or ast.dump(default) != ast.dump(found[name] or call)):
            default = None
        found[name] = default
    return found


def _option(call: ast.Call, flags: list[str]) -> tuple[str, ast.expr | None]:
    given = {one.arg: one.value for one in call.keywords}

    def constant(name: str) -> object:
        node = given.get(name)
        return node.value if isinstance(node, ast.Constant) else None

    long = [one for one in flags if one.startswith("--")] or flags
    name = str(constant("dest") or long[0].lstrip("-").replace("-", "_"))
    usual = {"store_true": False, "store_false": True}.get(str(constant("action")))
    default = given.get("default")
    if default is None and flags[0].startswith("-"):
        default = ast.copy_location(ast.Constant(usual), call)
    return name, None if constant("required") else default
