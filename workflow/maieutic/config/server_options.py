"""Checks of a vLLM server's arguments and environment variables, which must not load code or open access."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

PRIVATE_SOCKET_FIX = "remove it: the server listens on a private socket"
REVIEWED_FIX = "move it to reviewed_args after reviewing what it loads"
# Refused arguments of `vllm serve` (0.32), each with its fix. vLLM also accepts unambiguous abbreviations of them.
REFUSED_ARGUMENTS = {
    "--trust-remote-code": "set trust_remote_code: true, and weights.revision to a commit",
    **dict.fromkeys(("--api-key", "--hf-token"), "remove it: the server listens on a private socket and needs no key"),
    **dict.fromkeys(
        ("--host", "--port", "--uds", "--served-model-name", "--grpc", "--grpc-port", "--root-path"), PRIVATE_SOCKET_FIX
    ),
    **dict.fromkeys(
        (
            *("--middleware", "--tool-parser-plugin", "--reasoning-parser-plugin", "--io-processor-plugin"),
            *("--logits-processors", "--worker-cls", "--worker-extension-cls", "--scheduler-cls"),
            *("--model-class-overrides", "--kv-transfer-config", "--ec-transfer-config", "--weight-transfer-config"),
            *("--compilation-config", "-cc", "--additional-config", "-ac", "--config", "--log-config-file"),
            *(
                "--logging-config",
                "--code-revision",
                "--tool-server",
                "--profiler-config",
                "--model-loader-extra-config",
            ),
            *("--trust-request-chat-template", "--trust-request-mm-kwargs", "--allowed-local-media-path"),
            *("--allowed-media-domains", "--otlp-traces-endpoint", "--kv-events-config", "--enable-scale-out"),
            *("--data-parallel-address", "--data-parallel-rpc-port", "--master-addr", "--master-port"),
        ),
        REVIEWED_FIX,
    ),
}
ALLOWED_PREFIXES = {"--reasoning-parser"}  # allowed arguments that look like abbreviations of refused ones
SHORTEST_ABBREVIATION = 3  # length of the shortest possible abbreviation, `--` and one letter
# JSON values and dotted arguments (`--a.b=c`) that match this pattern may name a module or class to load.
LOADS_CODE = re.compile(r"plugin|module_path|remote_code|qualname|_cls\b|custom_class", re.IGNORECASE)
EXECUTORS = {None, "mp", "uni", "ray", "external_launcher"}  # any other value is the name of a class to load
# Variables of the engine and its libraries. A registry entry may set them, except LOADING_VARIABLES.
ENGINE_VARIABLES = re.compile(
    r"(?:VLLM|OMP|KMP|GOMP|MKL|OPENBLAS|BLIS|NUMEXPR|MALLOC|TCMALLOC|CUDA|CUBLAS|CUDNN|NVIDIA|NVTE|NCCL|RCCL|UCX|GLOO|HIP|HSA"
    r"|ROCR|ROCM|AMD|MIOPEN|TORCH|TORCHINDUCTOR|PYTORCH|TRITON|FLASHINFER|XLA|TPU|RAY)_[A-Z0-9_]+"
    r"|TOKENIZERS_PARALLELISM"
)
# Variables of the engine and its libraries that an entry must not set: they load code or open access.
LOADING_VARIABLES = re.compile(
    r".*(?:PLUGINS?|INJECTION.*|PRELOAD|LIBRAR(?:Y|IES)(?:_PATH)?|_PATH|_HOOK|_API_KEY|_TOKEN|_DEV_MODE|PICKLE.*"
    r"|INSECURE.*|_SERVER_DEV.*|REMOTE_CODE.*|TRACEBACKS?|_ENDPOINT|_PROXY|_DIRS?|_ROOT|_HOME|_FILE|_PATHS|_NVCC|_MANAGER"
    r"|_ADDRESS|_IP|_TRACE|_PREPEND_FLAGS|_MODELSCOPE)|.*TOOL.*|VLLM_PORT"
)


def refused_argument(word: str) -> str | None:
    """Return the refused argument that a command-line word names, in full or abbreviated, or None."""
    if not word.startswith("-") or re.fullmatch(r"-\d.*", word):
        return None
    name = re.split(r"[=.+\s]", word, maxsplit=1)[0].replace("_", "-").lower()
    name = re.sub(r"^--no-", "--", name)
    if name in ALLOWED_PREFIXES:
        return None
    short = len(name) < SHORTEST_ABBREVIATION
    return next((full for full in REFUSED_ARGUMENTS if full == name or (not short and full.startswith(name))), None)


def refused_words(words: Sequence[str]) -> dict[str, str]:
    """Return the refused words of a command line, each with its fix."""
    refused = {}
    for before, word in zip(("", *words), words, strict=False):
        if (full := refused_argument(word)) is not None:
            refused[word] = REFUSED_ARGUMENTS[full]
        elif ((word.startswith("{") or "." in argument_name(word)) and LOADS_CODE.search(word)) or executor_of(
            before, word
        ) not in EXECUTORS:
            refused[word] = REVIEWED_FIX
    return refused


def argument_name(word: str) -> str:
    """Return an argument's name without the value after `=`; empty for a word that is not an argument."""
    return word.partition("=")[0] if word.startswith("-") else ""


def executor_of(before: str, word: str) -> str | None:
    """Return the distributed executor that a command-line word sets, or None if it sets none.

    The word is `--distributed-executor-backend=X`, or X after that argument. before: the preceding word.
    """
    name, sign, value = word.partition("=")
    if not sign or not word.startswith("-"):
        name, value = ("" if "=" in before else before), word
    return value if name.replace("_", "-").startswith("--distributed-e") else None


def faults_of_arguments(key: str, words: Sequence[str]) -> list[str]:
    """Return a list with one message that names all refused arguments and their fixes, or an empty list.

    key: configuration key that contains the words.
    """
    refused = [f"{word} ({fix})" for word, fix in refused_words(words).items()]
    return [f"{key} must not contain {', '.join(refused)}"] if refused else []


def faults_of_variables(environment: Mapping[str, str]) -> list[str]:
    """Return a list with one message that names all refused variables, or an empty list.

    A variable is refused if it loads code, opens access, is not a setting of the engine, or contains a null character.
    """
    refused = [
        name for name in environment if not ENGINE_VARIABLES.fullmatch(name) or LOADING_VARIABLES.fullmatch(name)
    ]
    refused += [name for name, value in environment.items() if "\0" in value and name not in refused]
    fix = (
        "set only engine settings (VLLM_..., OMP_...) that load no code; export other variables in the shell that "
        "starts the run, and list them in MAIEUTIC_INHERIT"
    )
    return [f"environment must not contain {', '.join(refused)}: {fix}"] if refused else []
