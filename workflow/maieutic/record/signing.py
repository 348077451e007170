"""Signatures of a shared run's manifest, made and checked by OpenSSH's `ssh-keygen -Y`."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path

from maieutic.core.errors import UserError
from maieutic.core.extensions import MANIFEST
from maieutic.record.received import ASK_SENDER, SIGNATURE

SSH_KEYGEN = "ssh-keygen"
SIGNATURE_NAMESPACE = "maieutic"  # ssh-keygen rejects signatures made for another namespace
SIGNER_IDENTITY = "signer"
INSTALL_OPENSSH = "install OpenSSH's client (Debian: apt install openssh-client)"
MOST_OUTPUT_CHARACTERS = 300  # maximum length of ssh-keygen's output in an error message


def ssh_keygen_path() -> str:
    """Return the path of ssh-keygen. Raises UserError if it is not installed."""
    if path := shutil.which(SSH_KEYGEN):
        return path
    raise UserError(SSH_KEYGEN, "not found on the PATH; it signs manifests and checks signatures", INSTALL_OPENSSH)


def run_ssh_keygen(*arguments: str | Path, text: bytes | None = None) -> subprocess.CompletedProcess[bytes]:
    """Run ssh-keygen. text: standard input; if it is None, ssh-keygen may ask for a passphrase on the terminal."""
    return subprocess.run([ssh_keygen_path(), *arguments], input=text, capture_output=True, check=False)


def program_output(done: subprocess.CompletedProcess[bytes]) -> str:
    """Return ssh-keygen's standard error as one line, or its standard output if standard error is empty."""
    return " ".join((done.stderr or done.stdout).decode("utf-8", "replace").split())[:MOST_OUTPUT_CHARACTERS]


def sign_manifest(folder: Path, key: Path) -> None:
    """Sign a crate's manifest with an OpenSSH private key. Raises UserError if the manifest cannot be signed."""
    if not key.is_file():
        raise UserError(
            f"--sign {key}",
            "expected an OpenSSH private key, found no file",
            "run `ssh-keygen -t ed25519` to make a key",
        )
    done = run_ssh_keygen("-Y", "sign", "-q", "-f", key, "-n", SIGNATURE_NAMESPACE, folder / MANIFEST)
    if done.returncode or not (folder / SIGNATURE).is_file():
        raise UserError(
            f"--sign {key}", f"the manifest cannot be signed: {program_output(done)}", "pass an OpenSSH private key"
        )


def check_signature(received: Path, folder: Path, signed_by: Path | None) -> str:
    """Check a crate's signature against a file of public keys, and return a remark for the log message.

    received: path of the crate as the user passed it; folder: the unpacked crate; signed_by: file with one public key
    per line, as in id_ed25519.pub; if None, nothing is checked. Raises UserError if there is no signature, or if it
    was not made with one of these keys.
    """
    signature = folder / SIGNATURE
    if signed_by is None:
        return "; signed (to check the signer, pass --signed-by KEY.pub)" if signature.is_file() else ""
    if not signature.is_file():
        raise UserError(
            str(received),
            f"expected the signature {SIGNATURE}, found none",
            "ask the sender to share the run with --sign",
        )
    keys = read_public_keys(signed_by)
    with tempfile.TemporaryDirectory() as place:
        allowed = Path(place) / "allowed_signers"
        allowed.write_text(
            "".join(f'{SIGNER_IDENTITY} namespaces="{SIGNATURE_NAMESPACE}" {key}\n' for key in keys), encoding="utf-8"
        )
        done = run_ssh_keygen(
            "-Y", "verify", "-f", allowed, "-I", SIGNER_IDENTITY, "-n", SIGNATURE_NAMESPACE, "-s", signature,
            text=(folder / MANIFEST).read_bytes(),
        )  # fmt: skip
    if done.returncode:
        raise UserError(
            str(received),
            f"{SIGNATURE} is not a valid signature by a key in {signed_by}: {program_output(done)}",
            ASK_SENDER,
        )
    return f", signed by a key in {signed_by}"


def read_public_keys(path: Path) -> list[str]:
    """Return the public keys in a file, each as its type and the key itself, without the comment."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(
            f"--signed-by {path}", f"cannot be read: {error}", "pass a file of public keys, such as id_ed25519.pub"
        ) from None
    keys = [" ".join(line.split()[:2]) for line in lines if line.strip() and not line.startswith("#")]
    if not keys or not all(key.startswith(("ssh-", "ecdsa-", "sk-")) and " " in key for key in keys):
        raise UserError(
            f"--signed-by {path}",
            "expected one public key per line, found other text",
            "pass a file of public keys, such as id_ed25519.pub",
        )
    return keys
