"""Detection and redaction of API keys, so that they never reach logs, results or reports."""

from __future__ import annotations

import base64
import json
import os
import re
import resource
from collections.abc import Iterable, Iterator, Mapping
from urllib.parse import quote, quote_plus, urlsplit

SHORTEST = 8  # minimum length of a redacted value; a shorter one may be a word, and redacting it would garble texts
REDACTED = "[key]"
# A value of this form is likely a key. A shorter one, or one without both letters and digits, may be an ordinary word.
KEY_LIKE_VALUE = re.compile(r"(?=.*\d)(?=.*[A-Za-z]).{12,}")
# Matches the names of environment variables that contain a secret.
SECRET_NAME = re.compile(
    r"(?:^|_)(?:API_?KEY|KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIALS?|JWT|PAT)(?:$|_)", re.IGNORECASE
)
NOT_SECRET_NAME = re.compile(r"_(?:ID|PATH|FILE|URL|DIR)$", re.IGNORECASE)
# Keys of known services, anywhere in a text. Lengths are bounded, so that matching takes linear time.
KNOWN_KEY = re.compile(
    r"\b(?:sk-(?=[A-Za-z_-]{0,200}\d)(?=[a-z0-9_-]{0,200}[A-Z])[A-Za-z0-9_-]{16,}|hf_[A-Za-z0-9]{16,}|gsk_[A-Za-z0-9]{16,}|xai-[A-Za-z0-9]{16,}|AIza[A-Za-z0-9_-]{30,}"
    r"|AKIA[A-Z0-9]{16}|gh[pousr]_[A-Za-z0-9]{20,}|glpat-[A-Za-z0-9_-]{16,}|xox[abprs]-[A-Za-z0-9-]{10,}"
    r"|eyJ[A-Za-z0-9_-]{8,500}+\.eyJ[A-Za-z0-9_-]{8,2000}+\.[A-Za-z0-9_-]+)|\bBearer\s+[A-Za-z0-9._~+/-]{16,}"
)
# Public prefixes of known services' keys.
KEY_PREFIX = re.compile(
    r"sk-(?:proj-|ant-(?:api\d\d-)?|or-v1-|svcacct-|admin-|lf-)?|gsk_|hf_|xai-|AIza|AKIA|gh[pousr]_|glpat-|xox[abprs]-"
    r"|nvapi-|pplx-|r8_|fw_|tgp_v1_|csk-"
)
FEWEST_KEY_CHARACTERS = 12  # minimum number of characters after the public prefix for a truncated key to be redacted
# Found at the end of the names of request fields and URL parameters that contain a secret.
SECRET_FIELD = re.compile(
    r"(?:^|[._-])(?:api[_-]?key|key|sig|signature|authori[sz]ation|secret|password|passwd|credentials?|cookie"
    r"|(?:access|auth|bearer|id|refresh|session)[_-]?token|token|(?:extra|default)[_-]?headers|headers)$",
    re.IGNORECASE,
)


def is_named_as_secret(variable: str) -> bool:
    """Return True if the name of an environment variable suggests that its value is a secret."""
    return bool(SECRET_NAME.search(variable)) and not NOT_SECRET_NAME.search(variable)


def no_core_dumps() -> None:
    """Disable core dumps of this process and its children, since a dump would contain keys."""
    _, most = resource.getrlimit(resource.RLIMIT_CORE)
    resource.setrlimit(resource.RLIMIT_CORE, (0, most))


def model_list_headers(base_url: str, key: str | None) -> dict[str, str]:
    """Return the HTTP headers that authorise a request for an endpoint's list of models.

    Anthropic uses headers of its own. The result is empty without a key.
    """
    if not key:
        return {}
    anthropic = {"x-api-key": key, "anthropic-version": "2023-06-01"}
    return anthropic if urlsplit(base_url).hostname == "api.anthropic.com" else {"Authorization": f"Bearer {key}"}


def ordered_encodings(secret: str) -> list[str]:
    """Return the encodings of a secret in a fixed order.

    If a secret is truncated, each of its encodings is the beginning of the whole secret's encoding at the same position
    in the list.
    """
    data = secret.encode("utf-8", "surrogateescape")  # restores bytes in the environment that are not valid UTF-8
    forms = [secret, quote(data, safe=""), quote(data), quote_plus(data), json.dumps(secret)[1:-1]]
    for before in range(3):
        encoded = base64.b64encode(b"\0" * before + data).decode()
        # A Base64 character encodes six bits. Characters at the ends that also depend on the text around the secret
        # are left out.
        whole = encoded[-(-8 * before // 6) : 8 * (before + len(data)) // 6]
        forms += [whole, whole.translate(str.maketrans("+/", "-_"))]
    return forms


def searchable_encodings(secret: str) -> set[str]:
    """Return the encodings of a secret that are long enough to search for: plain, URL-quoted, JSON and Base64."""
    return {form for form in ordered_encodings(secret) if len(form) >= SHORTEST}


def redacted_beginning(key: str) -> str:
    """Return the shortest part of a key that is redacted: its public prefix and FEWEST_KEY_CHARACTERS characters."""
    fixed = KEY_PREFIX.match(key)
    return key[: (fixed.end() if fixed else 0) + FEWEST_KEY_CHARACTERS]


class Redactor:
    """Callable that redacts known secrets from texts."""

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        self.secrets: set[str] = set()
        self.pattern: re.Pattern[str] | None = None
        self.beginnings: dict[str, str] = {}  # encoded beginning of a secret -> the whole secret in the same encoding
        for secret in secrets:
            self.add(secret)

    def add(self, secret: str, *, beginnings: bool = False) -> None:
        """Add a secret, unless it is shorter than SHORTEST. beginnings: also redact truncated copies of it."""
        if len(secret) < SHORTEST:
            return
        if beginnings and len(first := redacted_beginning(secret)) < len(secret):
            self.beginnings |= dict(zip(ordered_encodings(first), ordered_encodings(secret), strict=True))
        if secret in self.secrets:
            return
        self.secrets.add(secret)
        forms = sorted({form for each in self.secrets for form in searchable_encodings(each)}, key=len, reverse=True)
        self.pattern = re.compile("|".join(map(re.escape, forms)))

    def __call__(self, text: str) -> str:
        """Return the text with each known secret replaced by REDACTED."""
        if self.pattern is None:
            return text
        text = self.pattern.sub(REDACTED, text)
        for first, whole in self.beginnings.items():
            text = redact_beginnings(text, first, whole)
        return text

    def contains_secret(self, text: str) -> bool:
        """Return True if a text contains a known secret."""
        return self.pattern is not None and self.pattern.search(text) is not None


def redact_beginnings(text: str, first: str, whole: str) -> str:
    """Return the text with REDACTED in place of each copy of `whole`.

    A truncated copy is also replaced if it starts with `first`, the beginning of `whole`.
    """
    kept, place = [], 0
    while (start := text.find(first, place)) >= 0:
        end = start + len(first)
        while end < len(text) and end - start < len(whole) and text[end] == whole[end - start]:
            end += 1
        kept += [text[place:start], REDACTED]
        place = end
    return "".join([*kept, text[place:]]) if kept else text


def environment_secrets(environment: Mapping[str, str]) -> Iterator[str]:
    """Yield the values of environment variables whose names suggest a secret, except words such as `postgres`."""
    return (
        value.strip()
        for name, value in environment.items()
        if is_named_as_secret(name) and KEY_LIKE_VALUE.search(value)
    )


# Redactor for the logs and messages of this process. It redacts every secret in the process's environment.
redact = Redactor(environment_secrets(os.environ))
# Redactor for models' answers. It redacts only keys that were sent to a server, since redacting a password that is an
# ordinary word would garble an answer.
redact_sent_keys = Redactor()


def register_sent_key(key: str) -> None:
    """Register a key that is about to be sent to a server, so that it is redacted from answers, logs and messages.

    In logs and messages, truncated copies of the key are redacted as well; in answers, only whole copies.
    """
    redact.add(key, beginnings=True)
    redact_sent_keys.add(key)
