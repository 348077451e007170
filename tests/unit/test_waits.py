"""Tests of the waits that endpoints ask for, in the words of their providers."""

from __future__ import annotations

import time
from email.utils import formatdate
from typing import Any

import pytest
from maieutic.core.states import filter_error, state_of, usual_finish
from maieutic.serving.waits import Wait, wait_of

GOOGLE = [{"error": {"details": [
    {"violations": [{"quotaId": "GenerateRequestsPerMinutePerProjectPerModel-FreeTier"}]}, {"@type": "google.rpc.RetryInfo", "retryDelay": "13.2s"},
]}}]  # fmt: skip
STATED: dict[str, tuple[dict[str, str], Any, str, Wait | None]] = {
    "OpenAI": ({}, None, "Rate limit reached for tokens per min (TPM): Limit 10000. Please try again in 7m12s. Visit", Wait(432.0, False)),
    "Gemini, at the end of a long text": ({}, None, "check your plan and billing " * 30 + "\nPlease retry in 36.4s.", Wait(36.4, False)),
    "Gemini's RetryInfo": ({}, GOOGLE, "You exceeded your current quota, per day", Wait(13.2, False)),
    "Azure": ({}, None, "Requests exceeded the call rate limit. Please retry after 20 seconds. Please go here", Wait(20.0, False)),
    "milliseconds": ({}, None, "try again in 500ms", Wait(0.5, False)),
    "hours and minutes": ({}, None, "try again in 1 hour and 5 minutes", Wait(3900.0, False)),
    "a clock": ({}, None, "Quota will reset in 12:30:00", Wait(45000.0, False)),
    "wait": ({}, None, "Rate limit: please wait 30 seconds before retrying", Wait(30.0, False)),
    "a bare number": ({}, None, "retry_after: 12", Wait(12.0, False)),
    "a field": ({}, {"retry_after": 3.5}, "slow down", Wait(3.5, False)),
    "Retry-After": ({"Retry-After": "20"}, None, "", Wait(20.0, False)),
    "Retry-After with a unit": ({"retry-after": "1m30s"}, None, "", Wait(90.0, False)),
    "Retry-After of nothing": ({"Retry-After": "soon"}, None, "", None),
    "retry-after-ms": ({"retry-after-ms": "1500", "retry-after": "2"}, None, "", Wait(1.5, False)),
    "a used-up limit's reset": ({"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "6m0s"}, None, "", Wait(360.0, False)),
    "another limit's reset": ({"x-ratelimit-remaining-tokens": "90", "x-ratelimit-reset-tokens": "6m0s"}, None, "", None),
    "IETF's draft": ({"RateLimit": '"default";r=0;t=2'}, None, "", Wait(2.0, False)),
    "IETF's draft, with a rest": ({"RateLimit": '"default";r=5;t=2'}, None, "", None),
    "headers in the body": ({}, {"error": {"metadata": {"headers": {"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "30"}}}}, "", Wait(30.0, False)),
    "a date by the endpoint's own clock": ({"Date": "Sun, 01 Mar 2026 10:00:00 GMT", "Retry-After": "Sun, 01 Mar 2026 10:00:05 GMT"}, None, "", Wait(5.0, False)),
    "per day, with a delay": ({}, None, "requests per day (RPD): Limit 200, Used 200. Please try again in 7m12s", Wait(432.0, True)),
    "per day, without one": ({}, None, "Rate limit exceeded: free-models-per-day", Wait(None, True)),
    "an account": ({}, None, "You exceeded your current quota, please check your plan and billing details.", None),
    "nothing": ({}, None, "Too many requests. Try again later.", None),
    "numbers that are no wait": ({}, None, "maximum context length is 8192 tokens, 9000 requested", None),
}  # fmt: skip


@pytest.mark.parametrize("case", STATED)
def test_a_stated_wait_is_read(case: str) -> None:
    headers, content, text, wait = STATED[case]
    assert wait_of(headers, content, text) == wait


def test_dates_are_counted_from_now() -> None:
    for headers, text in (
        ({"Retry-After": formatdate(time.time() + 100, usegmt=True)}, ""),
        ({"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": str(round(1000 * (time.time() + 100)))}, ""),
        ({}, f"Limit resets at {time.strftime('%Y-%m-%dT%H:%M:%SZ', time.gmtime(time.time() + 100))}"),
    ):
        wait = wait_of(headers, None, text)
        assert wait is not None and wait.seconds is not None and 97 <= wait.seconds <= 101


@pytest.mark.parametrize("value", ["inf", "-5", "nan", "", "9" * 5000, "Fri, 01 Jan 99999999999 00:00:00 GMT"])
def test_an_odd_header_breaks_nothing(value: str) -> None:
    wait = wait_of({"Retry-After": value}, None, "")
    assert wait is None or wait.seconds is None or wait.seconds >= 0


@pytest.mark.parametrize(
    ("word", "usual"),
    [
        ("length", "length"), ("MAX_TOKENS", "length"), ("max_output_tokens", "length"), ("model_length", "length"), ("stop", "stop"),
        ("content_filter", "content_filter"), ("SAFETY", "content_filter"), ("content_filter: PROHIBITED_CONTENT", "content_filter"),
        ("RECITATION", "content_filter"), ("BLOCKLIST", "content_filter"), ("guardrail_intervened", "content_filter"),
        ("tool_calls", "tool_calls"), ("refusal", "refusal"), (None, None),
    ],
)  # fmt: skip
def test_finish_reasons_in_any_spelling(word: str | None, usual: str | None) -> None:
    assert usual_finish(word) == usual
    assert state_of(filter_error(word, None)) == ("filtered" if usual == "content_filter" else "answered")
