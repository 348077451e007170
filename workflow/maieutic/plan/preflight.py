"""Before any work: is the serving environment there, does every hosted endpoint answer, is its key set?"""

from __future__ import annotations

import logging
from collections.abc import Container
from pathlib import Path
from urllib.parse import urlsplit

from maieutic.config.models import BaselineModel, HostedModel
from maieutic.config.settings import Config
from maieutic.core.errors import UserError
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


def headers_of(base_url: str, key: str | None) -> dict[str, str]:
    """How a key is shown. Anthropic's list of models wants headers of its own, unlike its chat endpoint."""
    if not key:
        return {}
    bearer = {"Authorization": f"Bearer {key}"}
    own = {"x-api-key": key, "anthropic-version": "2023-06-01"}
    return own if urlsplit(base_url).hostname == "api.anthropic.com" else bearer


def check_endpoint(name: str, model: HostedModel) -> None:
    """One request for the list of models: any answer but a refusal of the key will do."""
    import requests

    headers = headers_of(model.base_url, hosted_key(name, model))
    try:
        address = f"{model.base_url.rstrip('/')}/models"
        # No redirect: it would carry the key elsewhere.
        status = requests.get(address, headers=headers, timeout=SECONDS, allow_redirects=False).status_code
    except (requests.RequestException, ValueError) as error:
        raise UserError(
            f"models.{name}.base_url",
            f"{model.base_url} does not answer ({type(error).__name__})",
            "start the server, or mend the address",
        ) from None
    if status in {401, 403}:
        raise UserError(
            f"models.{name}.key_env", f"{model.base_url} refuses the key ({status})", f"check {model.key_env}"
        )
