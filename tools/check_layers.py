#!/usr/bin/env python3
"""Fails when a file includes what its layer may not.

The table is the whole rule: each layer names the layers it may include.  Paths are relative to
the repository root.
"""
import pathlib
import re
import sys

_PURE = {"include", "lib/base", "lib/json", "lib/policy", "lib/gate", "lib/wire"}
_IO = _PURE | {"lib/io", "lib/egress"}
_SERVICE = _IO | {"lib/config", "lib/store", "lib/net", "lib/docker", "lib/box"}
LAYERS = {
    "include": {"include"},
    "lib/base": {"include", "lib/base"},
    "lib/json": {"include", "lib/base", "lib/json"},
    "lib/policy": {"include", "lib/base", "lib/policy"},
    "lib/gate": {"include", "lib/base", "lib/gate"},
    "lib/wire": _PURE,
    "lib/eyes": {"include", "lib/base", "lib/io", "lib/eyes"},
    "lib/io": {"include", "lib/base", "lib/json", "lib/wire", "lib/io"},
    "lib/config": {"include", "lib/base", "lib/policy", "lib/gate", "lib/config"},
    "lib/egress": {"include", "lib/base", "lib/json", "lib/policy", "lib/wire", "lib/io",
                   "lib/egress"},
    "lib/guest": {"include", "lib/base", "lib/json", "lib/policy", "lib/wire", "lib/io",
                  "lib/guest"},
    "lib/audit": {"include", "lib/base", "lib/json", "lib/io", "lib/audit"},
    "lib/agent": _PURE | {"lib/io", "lib/audit", "lib/eyes", "lib/agent"},
    "lib/store": _IO | {"lib/store"},
    "lib/net": _IO | {"lib/net"},
    "lib/docker": _IO | {"lib/docker"},
    "lib/local": _IO | {"lib/eyes", "lib/audit", "lib/guest", "lib/docker", "lib/box", "lib/agent",
                          "lib/local"},
    "lib/box": _IO | {"lib/box"},
    "lib/control": _SERVICE | {"lib/control"},
    "lib/work": _SERVICE | {"lib/work"},
    "lib/cli": _IO | {"lib/net", "lib/audit", "lib/eyes", "lib/agent", "lib/box", "lib/cli"},
    "daemons/controller": {"include", "daemons", "lib/config"},
    "daemons/worker": {"include", "daemons", "lib/config"},
    "daemons/settings": {"include", "daemons", "lib/config"},
    "daemons/guest": {"include", "lib/guest"},
    "daemons/egress": {"include", "lib/egress"},
    "daemons/cli": {"include", "daemons", "lib/cli"},
    "daemons": {"include", "daemons"},
    "examples": {"include"},
}
# System headers that the pure layers may include: values and algorithms, nothing that waits,
# reads a clock, or reaches the machine.
PURE = {"lib/policy", "lib/gate"}
PURE_HEADERS = set("""algorithm array bit bitset cctype charconv compare concepts cstddef cstdint cstring
    functional iterator limits map memory numeric optional set span string string_view tuple
    type_traits unordered_map unordered_set utility variant vector""".split())
# Public headers may name the standard library only; these for their types.
PUBLIC_EXTRA = {"chrono", "filesystem", "stop_token"}
INCLUDE = re.compile(r'^\s*#\s*include\s*(["<])([^">]+)[">]')


def layer_of(path):
    text = path.as_posix()
    return max((name for name in LAYERS if text.startswith(name + "/")), key=len, default=None)


def target_of(name):
    if name.startswith("sandboxkit/"):
        return "include"
    if name.startswith("daemons/"):
        return "daemons"
    return "lib/" + name.split("/")[0] if "/" in name else None


def problems(root):
    for path in sorted(p.relative_to(root) for d in ("include", "lib", "daemons", "examples")
                       for p in (root / d).rglob("*") if p.suffix in (".h", ".cc")):
        layer = layer_of(path)
        if layer is None:
            yield f"{path}: stands in no layer of the table"
            continue
        for number, line in enumerate((root / path).read_text().splitlines(), 1):
            found = INCLUDE.match(line)
            if not found:
                continue
            quote, name = found.groups()
            where = f"{path}:{number}"
            if quote == '"':
                target = target_of(name)
                if target not in LAYERS[layer]:
                    yield f"{where}: {layer} may not include {target or name}"
            elif layer in PURE and name not in PURE_HEADERS:
                yield f"{where}: {layer} is pure and may not include <{name}>"
            elif layer == "include" and name not in PURE_HEADERS | PUBLIC_EXTRA:
                yield f"{where}: a public header may not include <{name}>"


if __name__ == "__main__":
    found = list(problems(pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ".").resolve()))
    print("\n".join(found) or "layers: ok")
    sys.exit(bool(found))
