"""Validate a folder against RO-Crate's Workflow Run profile with roc-validator, offline.

Run it with an interpreter that has roc-validator: `python validate_crate.py FOLDER`. It prints the violations, and
exits with 1 if there is any. CONTEXT replaces the two online JSON-LD contexts that a crate names. Apart from a few
terms, they map each term to schema.org's term of the same name.
"""

from __future__ import annotations

import json
import sys
from typing import Any, ClassVar

from rdflib.plugins.parsers import jsonld as parser
from rdflib.plugins.shared.jsonld import context, util
from rocrate_validator import services
from rocrate_validator.utils.http import HttpRequester

BIOSCHEMAS = "https://bioschemas.org/"
# Terms of schema.org that RO-Crate's context lists.
TERMS = [
    "about", "actionStatus", "additionalType", "agent", "contentSize", "datePublished", "description", "encodingFormat",
    "endTime", "exampleOfWork", "hasPart", "identifier", "instrument", "license", "mainEntity", "mentions", "name",
    "object", "programmingLanguage", "result", "startTime", "subjectOf", "url", "value", "version", "workExample",
]  # fmt: skip
CONTEXT: dict[str, Any] = {
    "@context": {
        "@vocab": "http://schema.org/",
        **{term: f"http://schema.org/{term}" for term in TERMS},
        "File": "http://schema.org/MediaObject",
        "conformsTo": "http://purl.org/dc/terms/conformsTo",
        "ComputationalWorkflow": f"{BIOSCHEMAS}ComputationalWorkflow",
        "FormalParameter": f"{BIOSCHEMAS}FormalParameter",
        "input": f"{BIOSCHEMAS}ComputationalWorkflow#input",
        "output": f"{BIOSCHEMAS}ComputationalWorkflow#output",
        "sha256": "https://w3id.org/ro/terms/workflow-run#sha256",
    }
}
as_published = util.source_to_json


def source_to_json(source: Any, *args: Any, **kwargs: Any) -> Any:
    """Load a JSON-LD source as rdflib does, with CONTEXT for RO-Crate's contexts."""
    if str(source).startswith("https://w3id.org/ro/"):
        return CONTEXT, None
    return as_published(source, *args, **kwargs)


class Answer:
    """Response that the validator receives for a context that it fetches itself."""

    status_code, ok, content, text = 200, True, json.dumps(CONTEXT).encode(), json.dumps(CONTEXT)
    headers: ClassVar[dict[str, str]] = {"Content-Type": "application/ld+json"}
    links: ClassVar[dict[str, Any]] = {}
    url, from_cache = "", True

    def json(self) -> Any:
        return CONTEXT

    def raise_for_status(self) -> None:
        """Raise nothing: this answer is never an error."""


def main() -> int:
    HttpRequester.get = lambda self, *args, **kwargs: Answer()
    for module in (util, context, parser):
        module.source_to_json = source_to_json
    settings = services.ValidationSettings(
        rocrate_uri=sys.argv[1], profile_identifier="workflow-run-crate-0.5", requirement_severity="REQUIRED",
        offline=True,
    )  # fmt: skip
    result = services.validate(settings)
    for issue in result.get_issues():
        print(issue.check.identifier, issue.severity.name, issue.message)
    print("as required" if result.passed() else "not as required")
    return 0 if result.passed() else 1


if __name__ == "__main__":
    sys.exit(main())
