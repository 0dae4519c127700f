"""Checks that what a command prints is JSON of a schema.

  check_schema.py SCHEMA EXIT_STATUS[,EXIT_STATUS...] COMMAND...

Knows the keywords that the project's schemas use, and refuses others.
"""
import json
import subprocess
import sys

KNOWN = {"$schema", "$defs", "$ref", "title", "description", "type", "required", "properties",
         "additionalProperties", "items", "enum", "const", "minimum", "anyOf"}
TYPES = {"object": dict, "array": list, "string": str, "boolean": bool, "null": type(None), "integer": int,
         "number": (int, float)}


def is_type(value, name):
    if isinstance(value, bool):
        return name == "boolean"
    return isinstance(value, TYPES[name])


def errors(value, schema, root, where):
    unknown = set(schema) - KNOWN
    if unknown:
        raise SystemExit(f"the schema uses {unknown}, which this checker does not know")
    if "$ref" in schema:
        target = root
        for part in schema["$ref"].lstrip("#/").split("/"):
            target = target[part]
        yield from errors(value, target, root, where)
    if "anyOf" in schema:
        found = [list(errors(value, each, root, where)) for each in schema["anyOf"]]
        if all(found):
            yield f"{where}: fits none of its forms: {min(found, key=len)}"
    if "type" in schema:
        names = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
        if not any(is_type(value, name) for name in names):
            yield f"{where}: {value!r} is not of type {names}"
            return
    if "const" in schema and value != schema["const"]:
        yield f"{where}: {value!r} is not {schema['const']!r}"
    if "enum" in schema and value not in schema["enum"]:
        yield f"{where}: {value!r} is not one of {schema['enum']}"
    if "minimum" in schema and value < schema["minimum"]:
        yield f"{where}: {value} is below {schema['minimum']}"
    if isinstance(value, dict):
        for key in schema.get("required", []):
            if key not in value:
                yield f"{where}: {key} is missing"
        known = schema.get("properties", {})
        rest = schema.get("additionalProperties", True)
        for key, each in value.items():
            if key in known:
                yield from errors(each, known[key], root, f"{where}.{key}")
            elif rest is False:
                yield f"{where}: {key} is not expected"
            elif rest is not True:
                yield from errors(each, rest, root, f"{where}.{key}")
    if isinstance(value, list) and "items" in schema:
        for i, each in enumerate(value):
            yield from errors(each, schema["items"], root, f"{where}[{i}]")


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        schema = json.load(file)
    allowed = [int(status) for status in sys.argv[2].split(",")]
    run = subprocess.run(sys.argv[3:], capture_output=True, text=True, check=False)
    if run.returncode not in allowed:
        raise SystemExit(f"exit status {run.returncode}, not {allowed}:\n{run.stdout}{run.stderr}")
    value = json.loads(run.stdout)
    found = list(errors(value, schema, schema, "$"))
    # A checker that accepts everything would prove nothing.
    if not list(errors({}, schema, schema, "$")) or not list(errors({**value, "version": -1}, schema, schema, "$")):
        raise SystemExit("the checker accepts what is wrong")
    if found:
        raise SystemExit("\n".join(found))
    print("fits", sys.argv[1])


main()
