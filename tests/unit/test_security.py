"""Tests of safe YAML, key redaction, the environment of served models, and escaping in pages and tables."""

from __future__ import annotations

import base64
import itertools
import json
import logging
import os
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import quote, quote_plus

import pytest
from maieutic.core import secrets
from maieutic.core.errors import UserError
from maieutic.core.files import safe_cell
from maieutic.core.logs import FORMAT, RedactingFormatter, TerminalFormatter
from maieutic.core.secrets import KEY_PREFIX, REDACTED, Redactor, is_named_as_secret, redact, searchable_encodings
from maieutic.core.terminal import say
from maieutic.core.visible import script_safe_json, terminal_text, visible_text
from maieutic.core.yaml_files import parse_yaml, read_yaml
from maieutic.launch.config_files import check_config_files
from maieutic.serving.run_environment import inherited_environment

BOMB = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 8)
)
REFUSED = {
    "name of Python": ("x: !!python/name:os.system", "line 1: the tag !!python/name:os.system is not allowed"),
    "object of Python": ("x: !!python/object/apply:os.system [id]", "the tag !!python/object/apply:os.system is not"),
    "private tag": ("a: 1\nx: !mine 2", "line 2: the tag !mine is not allowed"),
    "aliases": (BOMB, "line 6: more than 500,000 values after resolving aliases"),
    "alias of itself": ("x: &x [*x]", "an alias refers to a node that contains it"),
    "duplicate key": ("run:\n  seed: 1\n  seed: 2", "line 3: duplicate key 'seed', first on line 2"),
    "nested": ("[" * 100 + "]" * 100, "nested more than 64 levels deep"),
    "nested beyond a parser's stack": ("[ " * 100_000, "nested more than 64 levels deep"),
    "nested after closed lists": ("[" * 40 + "[], " * 30 + "[" * 40 + "]" * 80, "nested more than 64 levels deep"),
    "nested blocks": ("\n".join(" " * n + "a:" for n in range(80)), "nested more than 64 levels deep"),
    "nested by aliases": ("a0: &a0 [1]\n" + "".join(f"a{n}: &a{n} [*a{n - 1}]\n" for n in range(1, 200)), "nested more than 64 levels deep after resolving aliases"),
    "expressions": ("__use_yte__: true\nx: ?1 + 1", "line 1: __use_yte__ would execute expressions in the file"),
    "NUL": ("a: b\0c", "invalid YAML: unacceptable character"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_yaml_that_no_configuration_needs_is_refused_by_its_line(name: str, tmp_path: Path) -> None:
    text, problem = REFUSED[name]
    path = tmp_path / "run.yaml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(UserError) as error:
        read_yaml(path)
    assert problem in error.value.line and "\n" not in error.value.line


def test_yaml_of_a_configuration_is_read() -> None:
    text = "a: &a {x: 1, y: null}\nb: {<<: *a, x: 2}\nc: [1.5, yes, 2024-01-01, '\\u2028']\n"
    assert parse_yaml(text)["b"] == {"x": 2, "y": None} and parse_yaml("") is None


def test_a_file_that_is_too_long_or_unreadable_is_refused(tmp_path: Path) -> None:
    with (tmp_path / "long.yaml").open("w") as handle:
        handle.truncate(9 << 20)
    with pytest.raises(UserError, match="exceeds 8 MB"):
        read_yaml(tmp_path / "long.yaml")
    with pytest.raises(UserError, match=r"cannot be read: .*null byte"):
        read_yaml(Path("a\0b"))


def test_all_run_files_are_looked_at_before_they_are_used(tmp_path: Path) -> None:
    files = [tmp_path / f"{name}.yaml" for name in ("good", "tag", "twice")]
    for file, text in zip(files, ("a: 1", "a: !!python/name:os.system", "a: 1\na: 2"), strict=True):
        file.write_text(text)
    with pytest.raises(UserError) as error:
        check_config_files(SimpleNamespace(config_settings=SimpleNamespace(configfiles=files)))
    assert [fault.place for fault in error.value.all] == [str(file) for file in files[1:]]
    check_config_files(SimpleNamespace(config_settings=SimpleNamespace(configfiles=None)))


KEY = "sk-canary/5f0c1d+x"


def test_no_form_of_a_key_is_left_in_a_text() -> None:
    redactor = Redactor([KEY])
    neighbours = ("", "a", "ab", "abc", "Bearer ", "user:")
    texts = [
        base64.b64encode(f"{before}{KEY}{after}".encode()).decode()
        for before, after in itertools.product(neighbours, repeat=2)
    ]
    texts += [text.translate(str.maketrans("+/", "-_")) for text in texts]
    texts += [KEY, quote(KEY), quote(KEY, safe=""), f"x{KEY}y", KEY.replace("/", "\\u002f") + KEY]
    for text in texts:
        assert REDACTED in redactor(text) and redactor.contains_secret(text), text
        assert len(redactor(text).replace(REDACTED, "")) < 30, "only neighbouring letters are left"
    assert redactor("nothing here") == "nothing here" and not Redactor(["short"]).contains_secret("short")


def stable_base64(data: bytes, before: int) -> str:
    """Return the Base64 characters that depend on the data alone, if this number of other bytes precede it."""
    after = -(before + len(data)) % 3
    texts = [base64.b64encode(fill * before + data + fill * after).decode() for fill in (b"\x00", b"\xff")]
    return "".join(first for first, second in zip(*texts, strict=True) if first == second)


@pytest.mark.parametrize("key", [KEY, "12345678", "ü/1 + ~?>", "not UTF-8: \udc80>>?~~ 9"])
def test_a_key_has_these_forms_and_no_others(key: str) -> None:
    data = os.fsencode(key)
    bases = [stable_base64(data, before) for before in range(3)]
    bases += [text.replace("+", "-").replace("/", "_") for text in bases]
    in_addresses = [quote(data), quote(data, safe=""), quote_plus(data)]
    assert searchable_encodings(key) == {key, json.dumps(key).strip('"'), *in_addresses, *bases}
    assert Redactor([key])(f"a {key} b") == f"a {REDACTED} b"


@pytest.mark.parametrize("key", ["sk-proj-Ab1cD2eF3gH4iJ5kL6mN7", "hf_Ab1cD2eF3gH4iJ5kL6", "a-key/of+our own 1234567"])
def test_a_key_without_its_end_is_replaced_in_words_and_logs(key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Truncated keys are redacted in any encoding, unless little more than the service's public prefix is left."""
    redactor = Redactor()
    redactor.add(key, beginnings=True)
    prefix = KEY_PREFIX.match(key)
    prefix_length = prefix.end() if prefix else 0
    for end in range(prefix_length + 12, len(key)):
        beginning = key[:end]
        encoded = base64.b64encode(b"user:" + beginning.encode()).decode()
        for text in (f"wrong key {beginning}...", f"k={quote(beginning, safe='')}&", f"{encoded} is no user"):
            assert REDACTED in redactor(text), (end, text)
            assert key[prefix_length : prefix_length + 4] not in redactor(text)
        assert redactor(f"{beginning}\u2026") == f"{REDACTED}\u2026", "the truncated key is replaced as a whole"
    assert redactor(key[: prefix_length + 11]) == key[: prefix_length + 11]
    monkeypatch.setattr(secrets, "redact", Redactor())
    monkeypatch.setattr(secrets, "redact_sent_keys", Redactor())
    secrets.register_sent_key(key)
    assert secrets.redact(key[:-1]) == REDACTED and secrets.redact_sent_keys(key[:-1]) == key[:-1], "replies stay as is"
    assert secrets.redact_sent_keys(key) == REDACTED


@pytest.mark.parametrize("keys", [["abcd1234", "abcd1234-efgh"], ["abcd1234-efgh", "abcd1234"]])
def test_a_key_that_extends_another_one_is_redacted_whole(keys: list[str]) -> None:
    assert Redactor(keys)("abcd1234-efgh abcd1234") == f"{REDACTED} {REDACTED}"


def test_a_log_has_no_key_not_even_in_a_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(redact, "secrets", set())
    monkeypatch.setattr(redact, "pattern", None)
    redact.add(KEY)
    try:
        raise ValueError(f"bad header {KEY}")
    except ValueError as error:
        record = logging.LogRecord(
            "x", logging.ERROR, "x", 1, "said %s", (KEY,), (type(error), error, error.__traceback__)
        )
    line = RedactingFormatter("%(message)s").format(record)
    assert KEY not in line and line.count(REDACTED) == 2 and "Traceback" in line


IS_SECRET = {
    "OPENAI_API_KEY": True, "HF_TOKEN": True, "AWS_SECRET_ACCESS_KEY": True, "DB_PASSWORD": True, "SLURM_JWT": True,
    "GH_PAT": True, "VLLM_API_KEY": True, "PATH": False, "KEYBOARD": False, "TOKENIZERS_PARALLELISM": False,
    "SSH_KEY_PATH": False, "MONKEY": False,
}  # fmt: skip


def test_a_served_model_inherits_no_key() -> None:
    assert {name: is_named_as_secret(name) for name in IS_SECRET} == IS_SECRET
    environment = {
        **dict.fromkeys(IS_SECRET, "x"), "MY_SERVICE": "y", "CUDA_VISIBLE_DEVICES": "0", "LD_LIBRARY_PATH": "/l",
        "HOME": "/h",
    }  # fmt: skip
    inherited = inherited_environment(
        {**environment, "OPENBLAS_NUM_THREADS": "1", "OPENBLAS_CORETYPE": "H", "SLURM_JOB_ID": "3", "http_proxy": "p"}
    )
    assert inherited_environment(
        {"SITE_THING": "1", "SITE_TOKEN": "2", "MAIEUTIC_INHERIT": "SITE_THING, SITE_TOKEN"}
    ) == {"SITE_THING": "1"}
    assert set(inherited) == {
        "PATH", "TOKENIZERS_PARALLELISM", "CUDA_VISIBLE_DEVICES", "LD_LIBRARY_PATH", "HOME", "OPENBLAS_CORETYPE",
        "SLURM_JOB_ID",
    }  # fmt: skip
    assert {"PATH", "HOME"} <= inherited_environment(os.environ).keys()


def test_data_in_a_page_close_no_script_and_are_short() -> None:
    assert script_safe_json({"a": ["<é>&", 1]}) == '{"a":["\\u003c\\u00e9\\u003e\\u0026",1]}'


def test_control_characters_become_visible_and_markup_stays_markup() -> None:
    from markupsafe import Markup

    assert visible_text("a\x1b[31m\x00b\u2028c\x85\ud800\ufffe") == "a\u241b[31m\u2400b\u21b5c\ufffd\ufffd\ufffd"
    assert visible_text("a\n\tb \u05d0") == "a\n\tb \u05d0"
    assert type(visible_text(Markup("<b>\x1b</b>"))) is Markup


@pytest.mark.parametrize("before", ["", " ", "\t", "\u00a0 ", "\u3000", "\ufeff", "\u200b", "\n "])
@pytest.mark.parametrize("start", ["=1+1", "+1", "-x", "@SUM(A1)", "\uff1d1"])
def test_no_cell_is_a_formula_whatever_stands_before_it(before: str, start: str) -> None:
    assert safe_cell(before + start) == f"'{before}{start}"
    assert safe_cell(f"a{before}{start}") == f"a{before}{start}" and safe_cell(-1.5) == -1.5


# Texts with which an endpoint or a file could change what a terminal shows, each with what is shown of it
HOSTILE_TEXTS = {
    "colours": ("\x1b[31mred", "\u241b[31mred"),
    "the clipboard (OSC 52)": ("\x1b]52;c;cm0gLXJm\x07", "\u241b]52;c;cm0gLXJm\u2407"),
    "8-bit control sequences": ("\x9b2Ja", "\ufffd2Ja"),
    "the order of letters": ("\u202etxt.exe\u2066", "\ufffdtxt.exe\ufffd"),
    "an overwritten line": ("failed\rpassed", "failed\u240dpassed"),
    "a lone surrogate": ("a\udc80", "a\ufffd"),
    "backspaces": ("bad\x08\x08\x08ok", "bad\u2408\u2408\u2408ok"),
}
HARMLESS_TEXTS = ["gr\u00fc\u00dfe", "\u05e9\u05dc\u05d5\u05dd", "\u4f60\u597d", "\U0001f469\u200d\U0001f3eb", "1\t2"]


def record(message: str, *args: object, **more: Any) -> logging.LogRecord:
    return logging.LogRecord("x", logging.WARNING, "f", 1, message, args, more.get("exc_info"))


@pytest.mark.parametrize("name", HOSTILE_TEXTS)
def test_texts_of_endpoints_reach_the_terminal_and_logs_without_control_characters(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text, signs = HOSTILE_TEXTS[name]
    error = UserError("models.m", f"the server answers {text}", "run again")
    say("cause:", text)
    say(error.line, error=True)
    try:
        raise ValueError(text)
    except ValueError as raised:
        info = (ValueError, raised, raised.__traceback__)
    outputs = [
        *capsys.readouterr(),
        RedactingFormatter(FORMAT).format(record("%s: %s", "m", text)),
        RedactingFormatter(FORMAT).format(record("failed", exc_info=info)),
        TerminalFormatter(tmp_path / "log").format(record("failed", exc_info=info)),
        error.lines,
    ]
    # A carriage return is a blank where a message is joined to one line.
    assert all(signs in output or signs.replace("\u240d", " ") in output for output in outputs), outputs
    assert not any(set(text) & set(output) & set("\x1b\x07\x9b\r\x08\u202e\u2066\udc80") for output in outputs)


def test_a_message_cannot_look_like_another_record(tmp_path: Path) -> None:
    line = RedactingFormatter(FORMAT).format(record("%s", "overloaded\n12:00:00 ERROR run.budget: is spent"))
    assert "\n" not in line and "overloaded\u21b512:00:00 ERROR" in line


@pytest.mark.parametrize("text", HARMLESS_TEXTS)
def test_letters_of_all_scripts_are_shown_unchanged(text: str) -> None:
    assert terminal_text(text) == text


@pytest.mark.own_text
def test_only_one_module_prints() -> None:
    """All others print by `say`, or by rich, so that no text reaches the terminal unchecked."""
    package = Path("workflow/maieutic")
    printing = [
        path for path in package.rglob("*.py") if re.search(r"(?<![\w.])print\(", path.read_text(encoding="utf-8"))
    ]
    assert printing == [package / "core/terminal.py"]
