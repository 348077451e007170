"""Keys of endpoints stay in the environment: what a key looks like, and texts in which no key is left."""

from __future__ import annotations

import base64
import json
import os
import re
import resource
from collections.abc import Iterable, Iterator, Mapping
from urllib.parse import quote, quote_plus, urlsplit

SHORTEST = 8  # characters: a shorter value is a word, and would be found everywhere
INSTEAD = "[key]"
DENSE = re.compile(r"(?=.*\d)(?=.*[A-Za-z]).{12,}")  # longer than a word, with digits
# Environment variables that hold a secret, by their names.
NAMED = re.compile(r"(?:^|_)(?:API_?KEY|KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIALS?|JWT|PAT)(?:$|_)", re.IGNORECASE)
NOT_NAMED = re.compile(r"_(?:ID|PATH|FILE|URL|DIR)$", re.IGNORECASE)
# Keys of the services that we know, wherever they stand. Every part has an end: a text of beginnings takes linear time.
LOOKS_LIKE = re.compile(
    r"\b(?:sk-(?=[A-Za-z_-]{0,200}\d)(?=[a-z0-9_-]{0,200}[A-Z])[A-Za-z0-9_-]{16,}|hf_[A-Za-z0-9]{16,}|gsk_[A-Za-z0-9]{16,}|xai-[A-Za-z0-9]{16,}|AIza[A-Za-z0-9_-]{30,}"
    r"|AKIA[A-Z0-9]{16}|gh[pousr]_[A-Za-z0-9]{20,}|glpat-[A-Za-z0-9_-]{16,}|xox[abprs]-[A-Za-z0-9-]{10,}"
    r"|eyJ[A-Za-z0-9_-]{8,500}+\.eyJ[A-Za-z0-9_-]{8,2000}+\.[A-Za-z0-9_-]+)|\bBearer\s+[A-Za-z0-9._~+/-]{16,}"
)
# What the keys of a service begin with, which is no secret.
BEGINS = re.compile(
    r"sk-(?:proj-|ant-(?:api\d\d-)?|or-v1-|svcacct-|admin-|lf-)?|gsk_|hf_|xai-|AIza|AKIA|gh[pousr]_|glpat-|xox[abprs]-"
    r"|nvapi-|pplx-|r8_|fw_|tgp_v1_|csk-"
)
FEWEST = 12  # characters behind that by which a beginning is taken for the key's
# Fields of a request, or of an address, that hold one.
FIELD = re.compile(
    r"(?:^|[._-])(?:api[_-]?key|key|sig|signature|authori[sz]ation|secret|password|passwd|credentials?|cookie"
    r"|(?:access|auth|bearer|id|refresh|session)[_-]?token|token|(?:extra|default)[_-]?headers|headers)$",
    re.IGNORECASE,
)


def is_named_as_secret(variable: str) -> bool:
    """Whether the name of an environment variable says that it holds a secret."""
    return bool(NAMED.search(variable)) and not NOT_NAMED.search(variable)


def no_core_dumps() -> None:
    """Let neither this process nor its children write a core dump, in which keys would stand."""
    _, most = resource.getrlimit(resource.RLIMIT_CORE)
    resource.setrlimit(resource.RLIMIT_CORE, (0, most))


def headers_of(base_url: str, key: str | None) -> dict[str, str]:
    """Return the headers that carry a key to an endpoint's list of models; Anthropic's takes others than its chat."""
    if not key:
        return {}
    own = {"x-api-key": key, "anthropic-version": "2023-06-01"}
    return own if urlsplit(base_url).hostname == "api.anthropic.com" else {"Authorization": f"Bearer {key}"}


def all_forms(secret: str) -> list[str]:
    """The ways in which a text may hold a secret, in a fixed order: those of a beginning begin those of the whole."""
    data = secret.encode("utf-8", "surrogateescape")  # the environment's own bytes, whatever they are
    forms = [secret, quote(data, safe=""), quote(data), quote_plus(data), json.dumps(secret)[1:-1]]
    for before in range(3):
        encoded = base64.b64encode(b"\0" * before + data).decode()
        # Each character holds six bits; those at the ends hold bits of what stands beside the secret too.
        whole = encoded[-(-8 * before // 6) : 8 * (before + len(data)) // 6]
        forms += [whole, whole.translate(str.maketrans("+/", "-_"))]
    return forms


def forms_of(secret: str) -> set[str]:
    """The ways in which a text may hold a secret: as it is, in an address, in JSON, in Base64 at any place."""
    return {form for form in all_forms(secret) if len(form) >= SHORTEST}


def beginning_of(key: str) -> str:
    """The shortest beginning of a key that is taken for it: FEWEST characters behind what its service's keys share."""
    fixed = BEGINS.match(key)
    return key[: (fixed.end() if fixed else 0) + FEWEST]


class Redactor:
    """Texts without the secrets that it knows."""

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        self.secrets: set[str] = set()
        self.pattern: re.Pattern[str] | None = None
        self.beginnings: dict[str, str] = {}  # to the whole form of the secret
        for secret in secrets:
            self.add(secret)

    def add(self, secret: str, *, beginnings: bool = False) -> None:
        """One secret more; what is too short to be one is none. beginnings: redact a text that ends early as well."""
        if len(secret) < SHORTEST:
            return
        if beginnings and len(first := beginning_of(secret)) < len(secret):
            self.beginnings |= dict(zip(all_forms(first), all_forms(secret), strict=True))
        if secret in self.secrets:
            return
        self.secrets.add(secret)
        forms = sorted({form for each in self.secrets for form in forms_of(each)}, key=len, reverse=True)
        self.pattern = re.compile("|".join(map(re.escape, forms)))

    def __call__(self, text: str) -> str:
        """The text with a mark in the place of each secret."""
        if self.pattern is None:
            return text
        text = self.pattern.sub(INSTEAD, text)
        for first, whole in self.beginnings.items():
            text = without_beginning(text, first, whole)
        return text

    def finds(self, text: str) -> bool:
        """Whether a text holds a secret."""
        return self.pattern is not None and self.pattern.search(text) is not None


def without_beginning(text: str, first: str, whole: str) -> str:
    """The text with a mark wherever a secret begins, as far as it goes. first: how much of it is taken for it."""
    kept, place = [], 0
    while (start := text.find(first, place)) >= 0:
        end = start + len(first)
        while end < len(text) and end - start < len(whole) and text[end] == whole[end - start]:
            end += 1
        kept += [text[place:start], INSTEAD]
        place = end
    return "".join([*kept, text[place:]]) if kept else text


def secrets_in(environment: Mapping[str, str]) -> Iterator[str]:
    """The values of the variables whose names say that they hold a secret; a plain word (`postgres`) is none."""
    return (value.strip() for name, value in environment.items() if is_named_as_secret(name) and DENSE.search(value))


redacted = Redactor(secrets_in(os.environ))  # for logs and messages of this process: all that its environment holds
keys_in_use = Redactor()  # for answers, which a word of somebody's password must not change: what was sent to a server


def use_key(key: str) -> None:
    """From now on a key is sent to a server: neither its answers nor this process's log keep it.

    Of a log and of an error's words a beginning of the key goes too; a reply keeps what only begins like it.
    """
    redacted.add(key, beginnings=True)
    keys_in_use.add(key)
