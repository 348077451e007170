"""Checks before the first job: of the budget, the serving environment, hosted endpoints and their keys."""

from __future__ import annotations

import difflib
import os
import shlex
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from maieutic.config.models import BaselineModel, HostedModel, JudgeModel, RecordedModel
from maieutic.config.settings import Config
from maieutic.core.errors import UserError, collect_faults
from maieutic.core.secrets import model_list_headers
from maieutic.launch.budget_limits import check_one_request_is_paid
from maieutic.launch.requests import NewRequests, models_to_call
from maieutic.plan.plan import Plan
from maieutic.preparation.own_readings import checks_of_readings
from maieutic.serving.backends import hosted_key

ENDPOINT_SECONDS = 15.0


class StartCheck(NamedTuple):
    """Check at the start of a run. subject: what is checked; run: raises UserError; passed: what it has shown then."""

    subject: str
    run: Callable[[], object]
    passed: str


def checks_of_start(
    plan: Plan, serve: str, models: Iterable[str], planned: Sequence[NewRequests]
) -> Iterator[StartCheck]:
    """Yield the checks of what a run's jobs need: the user's files, its budget, environment, endpoints and keys.

    serve: interpreter of the serving environment, as a path or as a command in the container; models: models of the
    planned jobs; planned: new requests of these jobs. Endpoints without new requests are not needed or checked.
    """
    for key, read in checks_of_readings(plan):
        yield StartCheck(key, read, "the file can be read")
    if plan.run.budget.is_limited():
        paid = partial(check_one_request_is_paid, plan, planned)
        yield StartCheck("run.budget", paid, "each limit carries at least one request")
    pending, entries = models_to_call(planned), {name: plan.models[name] for name in models}
    unserved = HostedModel | BaselineModel | RecordedModel
    served = [
        name
        for name, model in entries.items()
        if not isinstance(model, unserved) and not (isinstance(model, JudgeModel) and model.words)
    ]
    if served:
        check = partial(check_serving_environment, serve, served[0])
        yield StartCheck("serving environment", check, f"{serve} exists")
    for name, model in entries.items():
        if isinstance(model, HostedModel) and name in pending:
            key = f", {model.key_env} is set" if model.key_env else ""
            listing = partial(list_endpoint_models, name, model)
            yield StartCheck(f"endpoint of {name}", listing, f"{model.base_url} answers{key}")


def idle_judge_lines(plan: Plan) -> Iterator[str]:
    """Yield a line for each judge without a rubric for any selected task."""
    cards = [loaded.card for loaded in plan.cards.values()]
    rubrics = list(dict.fromkeys(name for card in cards for name in card.rubrics))
    for judge in plan.judges_of_replies:
        if not any(judge in plan.judges_of_card(card) for card in cards):
            graded_by = f"the tasks use {', '.join(rubrics)}" if rubrics else "no task is graded by a judge"
            names = ", ".join(plan.judge_entry(judge).rubrics)
            yield f"models.{judge}.rubrics: this judge grades no task of the run: it has {names}, and {graded_by}"


def unready_endpoints(config: Config, models: Iterable[str]) -> list[UserError]:
    """Return the errors of the hosted models whose endpoint does not answer or refuses the key."""
    entries = {name: config.models[name] for name in sorted(models)}
    return collect_faults(
        partial(list_endpoint_models, name, model) for name, model in entries.items() if isinstance(model, HostedModel)
    )


def check_serving_environment(serve: str, name: str) -> None:
    """Raise UserError if the interpreter of the serving environment does not exist. name: model that needs it."""
    if "/" in serve and not Path(serve).exists():
        raise UserError("interpreters.serve", f"{serve} does not exist, and {name} needs it", "run `make env`")


def proxy_fix(base_url: str) -> str:
    """Return the fix for an endpoint that does not answer through a proxy; "" if the environment sets no proxy for it.

    The proxy's address is not printed, because it may contain a password.
    """
    from requests.utils import get_environ_proxies

    address, proxies = urlsplit(base_url), get_environ_proxies(base_url, no_proxy=None)
    kind = next((kind for kind in (address.scheme, "all") if proxies.get(kind)), None)
    if kind is None:
        return ""
    known = os.environ.get("no_proxy") or os.environ.get("NO_PROXY")
    hosts = f"{known},{address.hostname}" if known else str(address.hostname)
    return f"correct the proxy address in {kind}_proxy, or bypass the proxy: export no_proxy={shlex.quote(hosts)}"


def list_endpoint_models(name: str, model: HostedModel) -> list[str]:
    """Return the models that an endpoint lists, if any. Raises UserError if it does not answer or refuses the key."""
    import requests

    headers = model_list_headers(model.base_url, hosted_key(name, model))
    try:
        address = f"{model.base_url.rstrip('/')}/models"
        # Do not follow a redirect, because it would send the key to another host. With an `auth` of its own, requests
        # does not replace the key by credentials of ~/.netrc.
        answer = requests.get(
            address, headers=headers, timeout=ENDPOINT_SECONDS, allow_redirects=False, auth=unchanged_request
        )
        status = answer.status_code
    except (requests.RequestException, ValueError) as error:
        raise UserError(
            f"models.{name}.base_url",
            f"{model.base_url} does not answer ({type(error).__name__})",
            proxy_fix(model.base_url) or "start the server, or correct base_url",
        ) from None
    if status == 407:
        raise UserError(
            f"models.{name}.base_url",
            f"the proxy for {model.base_url} requires authentication (407)",
            proxy_fix(model.base_url),
        )
    if status in {401, 403}:
        raise UserError(
            f"models.{name}.key_env",
            f"{model.base_url} refuses the key ({status})",
            f"set {model.key_env} to a valid key",
        )
    try:
        return [str(entry["id"]) for entry in answer.json()["data"]] if status == 200 else []
    except (ValueError, KeyError, TypeError):
        return []


def unchanged_request(request: Any) -> Any:
    """Return a prepared request unchanged."""
    return request


def unlisted_model_fix(model: HostedModel, listed: list[str]) -> str:
    """Return the fix for a model that its endpoint does not list; "" if the model is listed or the list is empty."""
    known = {name.removeprefix("models/") for name in listed}  # Gemini lists its models with this prefix
    if not known or model.model in known:
        return ""
    near = difflib.get_close_matches(model.model, sorted(known))
    return f"set model: {near[0]}" if len(near) == 1 else f"set model to one of: {', '.join(sorted(known)[:8])}"
