"""Signatures of a shared run's manifest, by OpenSSH's own keys and program (`ssh-keygen -Y`)."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path

from maieutic.core.errors import UserError
from maieutic.report.record.received import ASK, MANIFEST, SIGNATURE

PROGRAM = "ssh-keygen"
NAMESPACE = "maieutic"  # a signature made for another purpose does not hold here
IDENTITY = "signer"
INSTALL = "install OpenSSH's client (Debian: apt install openssh-client)"
SHORT = 300  # characters of what the program says


def program() -> str:
    """Return the path of ssh-keygen. Raises UserError where there is none."""
    if found := shutil.which(PROGRAM):
        return found
    raise UserError(PROGRAM, "expected on the PATH, to sign a manifest or check its signature; not found", INSTALL)


def run_program(*arguments: str | Path, text: bytes | None = None) -> subprocess.CompletedProcess[bytes]:
    """Run ssh-keygen. text: what it reads; without it, it may ask for a passphrase on the terminal."""
    return subprocess.run([program(), *arguments], input=text, capture_output=True, check=False)


def said(done: subprocess.CompletedProcess[bytes]) -> str:
    """Return what ssh-keygen has printed, as one line."""
    return " ".join((done.stderr or done.stdout).decode("utf-8", "replace").split())[:SHORT]


def sign(folder: Path, key: Path) -> None:
    """Sign a crate's manifest by a private key of OpenSSH. Raises UserError where that fails."""
    if not key.is_file():
        raise UserError(
            f"--sign {key}", "expected a private key of OpenSSH, found no file", "ssh-keygen -t ed25519 makes one"
        )
    done = run_program("-Y", "sign", "-q", "-f", key, "-n", NAMESPACE, folder / MANIFEST)
    if done.returncode or not (folder / SIGNATURE).is_file():
        raise UserError(
            f"--sign {key}", f"the manifest cannot be signed: {said(done)}", "name a private key of OpenSSH"
        )


def check_signature(received: Path, folder: Path, signed_by: Path | None) -> str:
    """Check a crate's signature by a file of public keys; return what to add to the line about its checksums.

    received: the crate as it was named; signed_by: one public key a line, as in id_ed25519.pub; None: nothing is
    checked. Raises UserError where the signature is absent or of none of the keys.
    """
    signature = folder / SIGNATURE
    if signed_by is None:
        return "; it is signed: --signed-by KEY.pub checks by whom" if signature.is_file() else ""
    if not signature.is_file():
        raise UserError(
            str(received), f"expected the signature {SIGNATURE}, found none", "ask the sender to share it with --sign"
        )
    keys = keys_in(signed_by)
    with tempfile.TemporaryDirectory() as place:
        allowed = Path(place) / "allowed_signers"
        allowed.write_text("".join(f'{IDENTITY} namespaces="{NAMESPACE}" {key}\n' for key in keys), encoding="utf-8")
        done = run_program(
            "-Y", "verify", "-f", allowed, "-I", IDENTITY, "-n", NAMESPACE, "-s", signature,
            text=(folder / MANIFEST).read_bytes(),
        )  # fmt: skip
    if done.returncode:
        raise UserError(str(received), f"{SIGNATURE} is not by a key of {signed_by}: {said(done)}", ASK)
    return f", signed by a key of {signed_by}"


def keys_in(path: Path) -> list[str]:
    """Return the public keys of a file, kind and key without the comment."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(
            f"--signed-by {path}", f"cannot be read: {error}", "name a public key, as id_ed25519.pub"
        ) from None
    keys = [" ".join(line.split()[:2]) for line in lines if line.strip() and not line.startswith("#")]
    if not keys or not all(key.startswith(("ssh-", "ecdsa-", "sk-")) and " " in key for key in keys):
        raise UserError(
            f"--signed-by {path}",
            "expected a public key a line, found another text",
            "name a public key, as id_ed25519.pub",
        )
    return keys
