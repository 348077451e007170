"""Before any work: is the serving environment there, does every hosted endpoint answer, is its key set?"""

from __future__ import annotations

import difflib
import logging
import os
import shlex
from collections.abc import Container
from pathlib import Path
from urllib.parse import urlsplit

from maieutic.config.models import BaselineModel, HostedModel
from maieutic.config.settings import Config
from maieutic.core.errors import UserError
from maieutic.core.secrets import headers_of
from maieutic.serving.backends import hosted_key

log = logging.getLogger(__name__)
SECONDS = 15.0


def check_run(config: Config, serve: str, models: list[str], asked: Container[str]) -> None:
    """Check the models that this run's jobs name. Raises UserError for the first that would fail.

    serve: the serving environment's interpreter, a path or a command that the container has; asked: the models of
    which some answer is not on file. An endpoint whose answers are all there need not be there, nor its key.
    """
    for name in models:
        model = config.models[name]
        if not isinstance(model, HostedModel | BaselineModel):
            check_serve(serve, name)
        if isinstance(model, HostedModel) and name in asked:
            check_endpoint(name, model)


def check_serve(serve: str, name: str) -> None:
    """The serving environment is there, since something needs it."""
    if "/" in serve and not Path(serve).exists():
        raise UserError("interpreters.serve", f"{serve} is not there, and {name} needs it", "make env")


def past_proxy(base_url: str) -> str:
    """Return the fix for an endpoint that is asked through a proxy of the environment, "" where it is asked directly.

    The proxy itself is not shown: its address may hold a password.
    """
    from requests.utils import get_environ_proxies

    address, proxies = urlsplit(base_url), get_environ_proxies(base_url, no_proxy=None)
    kind = next((kind for kind in (address.scheme, "all") if proxies.get(kind)), None)
    if kind is None:
        return ""
    known = os.environ.get("no_proxy") or os.environ.get("NO_PROXY")
    hosts = f"{known},{address.hostname}" if known else str(address.hostname)
    return (
        f"it is asked through the proxy of {kind}_proxy: mend that, or go past it: export no_proxy={shlex.quote(hosts)}"
    )


def check_endpoint(name: str, model: HostedModel) -> list[str]:
    """Ask for the list of models, and return it: any answer but a refusal of the key will do, and some list none."""
    import requests

    headers = headers_of(model.base_url, hosted_key(name, model))
    try:
        address = f"{model.base_url.rstrip('/')}/models"
        # No redirect: it would carry the key elsewhere.
        answer = requests.get(address, headers=headers, timeout=SECONDS, allow_redirects=False)
        status = answer.status_code
    except (requests.RequestException, ValueError) as error:
        raise UserError(
            f"models.{name}.base_url",
            f"{model.base_url} does not answer ({type(error).__name__})",
            past_proxy(model.base_url) or "start the server, or mend the address",
        ) from None
    if status == 407:
        raise UserError(
            f"models.{name}.base_url",
            f"the proxy on the way to {model.base_url} wants to be told who asks (407)",
            past_proxy(model.base_url),
        )
    if status in {401, 403}:
        raise UserError(
            f"models.{name}.key_env", f"{model.base_url} refuses the key ({status})", f"check {model.key_env}"
        )
    try:
        return [str(entry["id"]) for entry in answer.json()["data"]] if status == 200 else []
    except (ValueError, KeyError, TypeError):
        return []


def unlisted(model: HostedModel, listed: list[str]) -> str:
    """Return what to do about a model that its endpoint does not list; "" where it does, or where it lists none."""
    known = {other.removeprefix("models/") for other in listed}  # as Gemini's list writes them
    if not known or model.model in known:
        return ""
    near = difflib.get_close_matches(model.model, sorted(known))
    return f"set model: {near[0]}" if len(near) == 1 else f"set model to one that is: {', '.join(sorted(known)[:8])}"
