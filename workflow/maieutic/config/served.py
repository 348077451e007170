"""What an entry may tell the server of its weights: no argument or variable that loads code or opens a way in."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

OURS = "the server listens on a socket of its own, of one user: leave it out"
REVIEWED = "put it into reviewed_args, if you vouch for what it loads"
# Arguments of `vllm serve` (0.32), and what to do instead. A prefix of a name is that name to its parser.
REFUSED = {
    "--trust-remote-code": "set trust_remote_code: true with weights.revision, a commit",
    **dict.fromkeys(("--api-key", "--hf-token"), "no key is needed: the server is on a socket and is offline"),
    **dict.fromkeys(("--host", "--port", "--uds", "--served-model-name", "--grpc", "--grpc-port", "--root-path"), OURS),
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
        REVIEWED,
    ),
}
WHOLE = {"--reasoning-parser"}  # a name of its own that begins a refused one
LEAST = 3  # characters of an abbreviation: `--` and a letter
# What a value, or a field of an argument that is JSON, may not name: a module or class to load.
LOADS = re.compile(r"plugin|module_path|remote_code|qualname|_cls\b|custom_class", re.IGNORECASE)
EXECUTORS = {None, "mp", "uni", "ray", "external_launcher"}  # others are the names of classes
# Variables that a server's entry may set: of the engine and of the libraries below it.
ALLOWED = re.compile(
    r"(?:VLLM|OMP|KMP|GOMP|MKL|OPENBLAS|BLIS|NUMEXPR|MALLOC|TCMALLOC|CUDA|CUBLAS|CUDNN|NVIDIA|NVTE|NCCL|RCCL|UCX|GLOO|HIP|HSA"
    r"|ROCR|ROCM|AMD|MIOPEN|TORCH|TORCHINDUCTOR|PYTORCH|TRITON|FLASHINFER|XLA|TPU|RAY)_[A-Z0-9_]+"
    r"|TOKENIZERS_PARALLELISM"
)
# ... but for those of them by which code, or a way in, is loaded.
LOADING = re.compile(
    r".*(?:PLUGINS?|INJECTION.*|PRELOAD|LIBRAR(?:Y|IES)(?:_PATH)?|_PATH|_HOOK|_API_KEY|_TOKEN|_DEV_MODE|PICKLE.*"
    r"|INSECURE.*|_SERVER_DEV.*|REMOTE_CODE.*|TRACEBACKS?|_ENDPOINT|_PROXY|_DIRS?|_ROOT|_HOME|_FILE|_PATHS|_NVCC|_MANAGER"
    r"|_ADDRESS|_IP|_TRACE|_PREPEND_FLAGS|_MODELSCOPE)|.*TOOL.*|VLLM_PORT"
)


def refused_argument(word: str) -> str | None:
    """The name of a refused argument that a word of a command line means; None for any other word."""
    if not word.startswith("-") or re.fullmatch(r"-\d.*", word):
        return None
    name = re.split(r"[=.+\s]", word, maxsplit=1)[0].replace("_", "-").lower()
    name = re.sub(r"^--no-", "--", name)
    if name in WHOLE:
        return None
    short = len(name) < LEAST
    return next((full for full in REFUSED if full == name or (not short and full.startswith(name))), None)


def why_refused(words: Sequence[str]) -> dict[str, str]:
    """The refused words of a command line, each with what to do instead."""
    refused = {}
    for before, word in zip(("", *words), words, strict=False):
        if (full := refused_argument(word)) is not None:
            refused[word] = REFUSED[full]
        elif ((word.startswith("{") or "." in name_of(word)) and LOADS.search(word)) or executor_of(
            before, word
        ) not in EXECUTORS:
            refused[word] = REVIEWED
    return refused


def name_of(word: str) -> str:
    """The name of an argument, without the value behind its sign of equality; empty for what is no argument."""
    return word.partition("=")[0] if word.startswith("-") else ""


def executor_of(before: str, word: str) -> str | None:
    """The executor that a word names, behind its argument or after a sign of equality; None for any other word."""
    name, sign, value = word.partition("=")
    if not sign or not word.startswith("-"):
        name, value = ("" if "=" in before else before), word
    return value if name.replace("_", "-").startswith("--distributed-e") else None


def faults_of_arguments(key: str, words: Sequence[str]) -> list[str]:
    """What is wrong with the arguments of a server: those that are refused, each with what to do instead."""
    told = [f"{word} ({instead})" for word, instead in why_refused(words).items()]
    return [f"{key} may not have {', '.join(told)}"] if told else []


def faults_of_variables(environment: Mapping[str, str]) -> list[str]:
    """What is wrong with a server's variables: those that load code, reach beyond it, or cannot be a variable."""
    refused = [name for name in environment if not ALLOWED.fullmatch(name) or LOADING.fullmatch(name)]
    refused += [name for name, value in environment.items() if "\0" in value and name not in refused]
    told = (
        "it is for settings of the engine (VLLM_..., OMP_...) that load nothing; what your site needs, set in the "
        "shell that starts the run (and name it in MAIEUTIC_INHERIT)"
    )
    return [f"environment may not have {', '.join(refused)}: {told}"] if refused else []
