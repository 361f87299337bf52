#!/usr/bin/env python3
"""Fails when a secret is compared by anything but equal_constant_time.

A comparison that ends at the first byte that differs tells how many were right to whoever can
measure it.  Secrets are known by their names (SECRETS): what compares one with == or !=, with a
function that may end early, or in an SQL condition, is refused.  Whether one is there at all
(empty(), size(), == "") is no comparison of its bytes.
"""
import pathlib
import re
import sys

SECRETS = {"secret", "secret_hash", "access_token", "shown_token", "credential_text", "password",
           "passphrase", "signature", "hmac", "sha256_hex"}
EARLY = ("memcmp", "strcmp", "strncmp", "equal", "equals", "compare", "starts_with", "ends_with",
         "equal_ignoring_case", "lexicographical_compare", "mismatch")
_OPERAND = r"[*&]?[\w\]\[.:]+(?:->[\w\]\[.:]+)*(?:\([^()]*\))?(?:(?:\.|->)\w+\(\))?"
EQUALITY = re.compile(rf"({_OPERAND}|\"\")\s*(?:==|!=)\s*({_OPERAND}|\"\")")
CALL = re.compile(rf"\b([\w.]+(?:->\w+)*)\s*\(((?:[^()]|\([^()]*\))*)\)")
CONDITION = re.compile(r"\b(\w+)\s*(?:=|==|<>|!=|IS|LIKE)\s*[?:@$]", re.IGNORECASE)
COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
TEXT = re.compile(r'R"(\w*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"', re.DOTALL)
# The check's own test: what it must find, and what it must let be.
# Complaint 55: secrets are compared by a plain comparison.
FOUND = [
    "if (row.secret_hash == hash) {",
    "return store::sha256_hex(text) != row->secret_hash;",
    "return shown ==\n    access_token_;",
    "if (*signature != expected) {",
    "return std::memcmp(secret.data(), other.data(), 8) == 0;",
    "return text.compare(row.secret_hash) == 0;",
    "return password.starts_with(shown);",
    'prepare("SELECT id FROM credential WHERE secret_hash = ?")',
    "WHERE kind = ? AND secret_hash=?1",
]
PASSED = [
    "return equal_constant_time(sha256_hex(text), secret_hash);",
    "if (access_token_.empty() || secret.size() != kSize) {",
    'if (secret == "") {',
    "made.secret_hash = sha256_hex(made.text);",
    "// secret == other",
    'insert("secret_hash TEXT NOT NULL CHECK (secret_hash <> \'\')")',
    "if (row->kind != name->kind || !matches_hash(text, row->secret_hash)) {",
]


def is_secret(operand):
    if re.search(r"\.(?:empty|size|length)\(\)$", operand):
        return False
    return any(word.rstrip("_") in SECRETS for word in re.findall(r"\w+", operand))


def comparisons(text):
    """Offsets of the comparisons of secrets in a C++ source or an SQL text."""
    blank = lambda found: re.sub(r"[^\n]", " ", found.group())
    text = COMMENT.sub(blank, text)
    for found in CONDITION.finditer(text):
        if found.group(1) in SECRETS:
            yield found.start()
    code = TEXT.sub(lambda found: '""' + blank(found)[2:], text)
    for found in EQUALITY.finditer(code):
        left, right = found.groups()
        if '""' not in (left, right) and (is_secret(left) or is_secret(right)):
            yield found.start()
    for found in CALL.finditer(code):
        name, arguments = found.groups()
        object_of, _, called = re.sub("->|::", ".", name).rpartition(".")
        if called in EARLY and (is_secret(object_of) or is_secret(arguments)):
            yield found.start()


def problems(root):
    for text in FOUND:
        if not list(comparisons(text)):
            yield f"tools/check_secrets.py: does not find `{text}`"
    for text in PASSED:
        if list(comparisons(text)):
            yield f"tools/check_secrets.py: finds `{text}`, which is none"
    for folder in ("include", "lib", "daemons", "examples"):
        for path in sorted((root / folder).rglob("*")):
            if path.suffix not in (".h", ".cc"):
                continue
            text = path.read_text()
            for offset in sorted(set(comparisons(text))):
                line = text.count("\n", 0, offset) + 1
                yield f"{path.relative_to(root)}:{line}: compare secrets with equal_constant_time"


if __name__ == "__main__":
    found = list(problems(pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ".").resolve()))
    print("\n".join(found) or "secrets: ok")
    sys.exit(bool(found))
