"""`maieutic verify`: no cell of a table can be changed unseen, and no stranger's archive fills the memory."""

from __future__ import annotations

import csv
import io
import os
import re
import shutil
import struct
import subprocess
import sys
import tarfile
import time
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pandas as pd
import pyarrow.parquet as pq
import pytest
from conftest import absent
from maieutic.core.errors import UserError
from maieutic.plan.provenance import CodeState
from maieutic.report.record import received, signing
from maieutic.report.record import verify as verifying
from maieutic.report.record.file_comparison import compare_report_files, file_difference
from maieutic.report.record.received import MANIFEST, SIGNATURE, unpack_run
from maieutic.report.record.share import share
from maieutic.report.record.verify import verify
from test_record import COMMIT, SCORES, of_one_commit, rewrite, run, shared, signed_again

# Fixtures of the exports' tests: a finished run, the same as it is sent, a checkout of the run's commit.
__all__ = ["of_one_commit", "run", "shared"]
TABLE = "results/report/scores.csv"


# every cell -----------------------------------------------------------------------------------------------------------


def other_cells(cell: str) -> Iterator[str]:
    """What somebody might write instead: the least number that is another one, or another text."""
    try:
        number = float(cell)
    except ValueError:
        yield f"{cell}x" if cell else "0"
        return
    yield repr(number + max(2e-9, abs(number) * 2e-12))


def altered_tables(path: Path) -> Iterator[tuple[str, str]]:
    """Every copy of a CSV file with one cell changed, and which."""
    with open(path, encoding="utf-8", newline="") as handle:
        rows = list(csv.reader(handle))
    for at, row in enumerate(rows):
        for place, cell in enumerate(row):
            for other in other_cells(cell):
                changed = [*row[:place], other, *row[place + 1 :]]
                text = io.StringIO()
                csv.writer(text, lineterminator="\n").writerows([*rows[:at], changed, *rows[at + 1 :]])
                yield text.getvalue(), f"{path.name}, row {at}, column {place}: {cell!r} as {other!r}"


@pytest.mark.slow
def test_no_cell_of_a_table_is_changed_unseen(run: Path, tmp_path: Path) -> None:
    """The run's tables are what is made again: each is compared with every copy that has one cell changed."""
    tables = sorted([*run.glob("*.csv"), *(run / "tables").glob("*.csv")])
    tried, unseen = 0, []
    for path in tables:
        for text, which in altered_tables(path):
            copy = tmp_path / path.name
            copy.write_text(text, encoding="utf-8", newline="")
            tried += 1
            if file_difference(copy, path) is None:
                unseen.append(which)
    assert not unseen and tried > 5000, (tried, unseen[:5])
    print(f"{tried} changed cells of {len(tables)} tables, each found")


@pytest.mark.slow
def test_no_cell_of_the_parquet_table_is_changed_unseen(run: Path, tmp_path: Path) -> None:
    table = pd.read_parquet(run / "scores.parquet")
    kept = pq.read_schema(run / "scores.parquet")
    tried = 0
    for place, name in enumerate(table.columns):
        for at in range(0, len(table), 9):
            changed = table.copy()
            cell = changed.iloc[at, place]
            if isinstance(cell, bool) or str(table[name].dtype) == "bool":
                changed.iloc[at, place] = not cell
            elif isinstance(cell, str) or str(table[name].dtype) in {"object", "str"}:
                changed.iloc[at, place] = f"{cell}x"
            else:
                changed.iloc[at, place] = (
                    1 if pd.isna(cell) else cell + 1 if "nt" in str(table[name].dtype) else cell + 2e-9
                )
            changed.to_parquet(tmp_path / "scores.parquet", index=False)
            assert file_difference(tmp_path / "scores.parquet", run / "scores.parquet"), (name, at)
            tried += 1
    assert tried > 400 and kept.names == list(table.columns)


@pytest.mark.parametrize(
    ("why", "change"),
    [
        ("rows in another order", lambda rows: [rows[0], *reversed(rows[1:])]),
        ("a row too few", lambda rows: rows[:-1]),
        ("a row twice", lambda rows: [*rows, rows[-1]]),
        ("two columns with their names exchanged", lambda rows: [[*rows[0][:1], rows[0][2], rows[0][1], *rows[0][3:]], *rows[1:]]),
        ("the tutors' column turned round", lambda rows: [rows[0], *([*row[:2], other[2], *row[3:]] for row, other in zip(rows[1:], rows[:0:-1], strict=True))]),
        ("a cell too many", lambda rows: [rows[0], [*rows[1], "1"], *rows[2:]]),
        ("only the head", lambda rows: rows[:1]),
        ("nothing", lambda rows: []),
    ],
)  # fmt: skip
def test_a_table_that_is_put_together_otherwise_is_found(
    why: str, change: Callable[[list[list[str]]], list[list[str]]], run: Path, tmp_path: Path
) -> None:
    with open(run / "scores.csv", encoding="utf-8", newline="") as handle:
        rows = list(csv.reader(handle))
    with open(tmp_path / "scores.csv", "w", encoding="utf-8", newline="") as handle:
        csv.writer(handle, lineterminator="\n").writerows(change(rows))
    assert file_difference(tmp_path / "scores.csv", run / "scores.csv"), why


def test_first_and_second_tutor_are_not_exchanged_unseen(shared: Path, tmp_path: Path) -> None:
    """The winner would be the loser."""
    folder = tmp_path / "run"
    shutil.copytree(shared, folder)
    path = folder / "results/report/differences.csv"
    table = pd.read_csv(path, dtype=str, keep_default_na=False)
    table[["first", "second"]] = table[["second", "first"]].to_numpy()
    table.to_csv(path, index=False)
    signed_again(folder, "results/report/differences.csv")
    with pytest.raises(UserError, match=r"was altered: differences\.csv: \d+ extra rows and \d+ missing rows"):
        verify(folder)


def test_what_the_page_says_cannot_be_changed(shared: Path, tmp_path: Path) -> None:
    """Also where it stands in the data of its scripts, or in a picture."""
    folder = tmp_path / "run"
    shutil.copytree(shared, folder)
    [chart, *_] = sorted((folder / "results/report/figures").glob("*.svg"))
    picture = str(chart.relative_to(folder))
    rewrite(chart, lambda text: text.replace("<desc>", "<desc>Better. ", 1))
    page = "results/report/index.html"
    rewrite(folder / page, lambda text: text.replace("always-0", "always-1", 1))
    (folder / "results/report/tables/more.csv").write_text("a\n1\n")
    for name in (picture, page):
        signed_again(folder, name)
    added = "results/report/tables/more.csv"
    with open(folder / MANIFEST, "a", encoding="utf-8") as handle:
        handle.write(f"{received.sha256_of(folder / added)}  {added}\n")
    with pytest.raises(UserError) as caught:
        verify(folder)
    for found in (f"figures/{chart.name}: line", "index.html: line", "tables/more.csv: the report has no such file"):
        assert f"was altered: {found}" in str(caught.value), found


def test_a_run_of_another_commit_is_not_called_altered(
    shared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    monkeypatch.setattr(verifying, "code_state", lambda _: CodeState(commit="d" * 40))
    verify(shared)
    assert (
        f"the run was made with commit {COMMIT}, and this checkout is {'d' * 40}; this checkout reproduces its numbers"
        in caplog.text
    )
    folder = tmp_path / "a run's"
    shutil.copytree(shared, folder)
    rewrite(folder / TABLE, lambda text: text.replace(",1.0,", ",0.9,", 1))
    signed_again(folder, TABLE)
    with pytest.raises(UserError) as caught:
        verify(folder)
    assert "altered" not in str(caught.value) and "scores.csv: row" in str(caught.value)
    assert f"git worktree add ../maieutic-ccccccc {COMMIT}" in caught.value.fix
    assert f"maieutic verify '{tmp_path}/a run'\"'\"'s')" in caught.value.fix, "quoted for a shell"


def test_an_edited_checkout_proves_nothing(shared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        verifying, "code_state", lambda _: CodeState(commit=COMMIT, edited=["workflow/x.py"], n_edited=1)
    )
    folder = tmp_path / "run"
    shutil.copytree(shared, folder)
    rewrite(folder / TABLE, lambda text: text.replace(",1.0,", ",0.9,", 1))
    signed_again(folder, TABLE)
    with pytest.raises(UserError, match=r"this checkout has 1 edited files, such as workflow/x\.py"):
        verify(folder)


def test_what_is_only_checksummed_is_listed(shared: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    verify(shared)
    again, alone = caplog.messages[-2:]
    assert again.startswith("recomputed, with the same values in every column: results/grades (")
    assert alone.startswith("checked by checksum alone: README.md") and "results/replies (" in alone
    listed = len((shared / MANIFEST).read_text(encoding="utf-8").splitlines())
    counts = [int(number) for number in re.findall(r"\((\d+)\)", f"{again} {alone}")]
    single = [part for line in (again, alone) for part in line.partition(": ")[2].split(", ") if not part.endswith(")")]
    assert sum(counts) + len(single) == listed, "every file is in one of both lines"


# signatures -----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if not shutil.which("ssh-keygen"):
        absent("ssh-keygen", "apt install openssh-client")
    folder = tmp_path_factory.mktemp("keys")
    for name in ("own", "other"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / name], check=True)
    return folder


@pytest.mark.slow
def test_a_signed_run_is_checked_by_its_key(
    run: Path, keys: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    share(run=run, out=tmp_path / "run.zip", sign=keys / "own")
    verify(tmp_path / "run.zip", signed_by=keys / "own.pub")
    assert "signed by a key in" in caplog.text
    verify(tmp_path / "run.zip")
    assert "signed, check the signer with --signed-by KEY.pub" in caplog.text
    with pytest.raises(UserError, match=rf"{SIGNATURE} is not a valid signature by a key in"):
        verify(tmp_path / "run.zip", signed_by=keys / "other.pub")
    with unpack_run(tmp_path / "run.zip") as folder:
        shutil.copytree(folder, tmp_path / "forged")
    rewrite(tmp_path / "forged/README.md", lambda text: f"{text}\nmore")
    signed_again(tmp_path / "forged", "README.md")
    with pytest.raises(UserError, match="is not a valid signature by a key in"):
        verify(tmp_path / "forged", signed_by=keys / "own.pub")


def test_a_signature_for_another_purpose_is_none(shared: Path, keys: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    shutil.copytree(shared, folder)
    with pytest.raises(UserError, match=f"expected the signature {SIGNATURE}, found none"):
        verify(folder, signed_by=keys / "own.pub")
    subprocess.run(["ssh-keygen", "-q", "-Y", "sign", "-f", keys / "own", "-n", "file", folder / MANIFEST], check=True)
    with pytest.raises(UserError, match="is not a valid signature by a key in"):
        verify(folder, signed_by=keys / "own.pub")


def test_what_cannot_sign_says_so(run: Path, keys: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UserError, match="expected an OpenSSH private key, found no file"):
        share(run=run, out=tmp_path / "out", sign=tmp_path / "none")
    (tmp_path / "text").write_text("no key")
    with pytest.raises(UserError, match="the manifest cannot be signed"):
        share(run=run, out=tmp_path / "out", sign=tmp_path / "text")
    with pytest.raises(UserError, match="expected one public key per line"):
        signing.read_public_keys(tmp_path / "text")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UserError, match=r"ssh-keygen: .* not found\. Fix: install OpenSSH's client"):
        share(run=run, out=tmp_path / "out", sign=keys / "own")
    assert not (tmp_path / "out").exists()


# strangers' archives --------------------------------------------------------------------------------------------------

CHILD = """
import sys
from pathlib import Path
from maieutic.core.errors import UserError
from maieutic.report.record.verify import verify
try:
    verify(Path(sys.argv[1]))
except UserError as error:
    print(error.lines)
status = Path("/proc/self/status").read_text()
print(int(status.partition("VmHWM:")[2].split()[0]) // 1024)
"""


def verified_apart(place: Path) -> tuple[str, int, float]:
    """What a process of its own says of a received run, its memory in MB and the seconds that it took."""
    start = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-c", CHILD, place], capture_output=True, text=True, timeout=120, check=True,
        env={**os.environ, "PYTHONPATH": "workflow"},
    )  # fmt: skip
    *lines, memory = done.stdout.splitlines()
    return "\n".join(lines), int(memory), time.monotonic() - start


def zipped(folder: Path, out: Path, compression: int = zipfile.ZIP_DEFLATED) -> Path:
    with zipfile.ZipFile(out, "w", compression) as archive:
        for path in sorted(folder.rglob("*")):
            if path.is_file():
                archive.write(path, path.relative_to(folder))
    return out


def with_more(folder: Path, name: str, write: Callable[[Path], object]) -> None:
    """Change a file of a received run or add one, and put it into the manifest."""
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    write(folder / name)
    lines = [line for line in (folder / MANIFEST).read_text().splitlines() if not line.endswith(f"  {name}")]
    lines.append(f"{received.sha256_of(folder / name)}  {name}")
    (folder / MANIFEST).write_text("".join(f"{line}\n" for line in lines))


def sparse(size: int) -> Callable[[Path], object]:
    return lambda path: path.write_bytes(b"") is None or os.truncate(path, size)


def a_bomb(folder: Path, place: Path) -> Path:
    """An archive whose list of files says that each of two has 4 GB."""
    out = zipped(folder, place / "run.zip")
    data = bytearray(out.read_bytes())
    for found in list(re.finditer(b"PK\x01\x02", bytes(data)))[:2]:
        struct.pack_into("<I", data, found.start() + 24, 0xFFFFFFF0)
    out.write_bytes(bytes(data))
    return out


def more_than_it_says(folder: Path, place: Path) -> Path:
    """A file of 300 MB that the list says has a hundred bytes."""
    with_more(folder, "zeros.bin", sparse(300 << 20))
    out = zipped(folder, place / "run.zip")
    data = bytearray(out.read_bytes())
    at = next(
        found.start()
        for found in re.finditer(b"PK\x01\x02", bytes(data))
        if data[found.start() + 46 :].startswith(b"zeros.bin")
    )
    struct.pack_into("<I", data, at + 24, 100)
    out.write_bytes(bytes(data))
    return out


def a_folder_bomb(folder: Path, place: Path) -> Path:
    with_more(folder, "zeros.bin", lambda path: path.write_bytes(b""))
    os.truncate(folder / "zeros.bin", 5 << 30)
    return folder


def many_files(folder: Path, place: Path) -> Path:
    out = zipped(folder, place / "run.zip")
    with zipfile.ZipFile(out, "a") as archive:
        for number in range(110_000):
            archive.writestr(f"more/{number}", b"")
    return out


def an_endless_index(folder: Path, place: Path) -> Path:
    """An archive whose end says that its list of files has 3 GB."""
    out = zipped(folder, place / "run.zip")
    data = bytearray(out.read_bytes())
    struct.pack_into("<I", data, data.rfind(b"PK\x05\x06") + 12, 3 << 30)
    out.write_bytes(bytes(data))
    return out


def a_fifo(folder: Path, place: Path) -> Path:
    os.mkfifo(folder / "results/report/pipe")
    return folder


def a_manifest_fifo(folder: Path, place: Path) -> Path:
    (folder / MANIFEST).unlink()
    os.mkfifo(folder / MANIFEST)
    return folder


def a_device(folder: Path, place: Path) -> Path:
    (folder / "zero").symlink_to("/dev/zero")
    return folder


def a_link_in_the_archive(folder: Path, place: Path) -> Path:
    out = zipped(folder, place / "run.zip")
    with zipfile.ZipFile(out, "a") as archive:
        info = zipfile.ZipInfo("link")
        info.external_attr = 0o120777 << 16
        archive.writestr(info, "/etc/passwd")
    return out


def a_pipe_for_an_archive(folder: Path, place: Path) -> Path:
    os.mkfifo(place / "run.zip")
    return place / "run.zip"


def deep_folders(folder: Path, place: Path) -> Path:
    deep = folder
    for _ in range(60):
        deep /= "d" * 20
    deep.mkdir(parents=True)
    (deep / "x").write_text("x")
    return folder


def deep_names(folder: Path, place: Path) -> Path:
    out = zipped(folder, place / "run.zip")
    with zipfile.ZipFile(out, "a") as archive:
        archive.writestr("d/" * 2000 + "x", b"x")
    return out


def encrypted(folder: Path, place: Path) -> Path:
    out = zipped(folder, place / "run.zip")
    data = bytearray(out.read_bytes())
    for at in (found.start() for found in re.finditer(b"PK\x01\x02", bytes(data))):
        data[at + 8] |= 1
    out.write_bytes(bytes(data))
    return out


def damaged(compression: int) -> Callable[[Path, Path], Path]:
    def make(folder: Path, place: Path) -> Path:
        out = zipped(folder, place / "run.zip", compression)
        data = bytearray(out.read_bytes())
        for at in range(2000, 2600):
            data[at] ^= 0xFF
        out.write_bytes(bytes(data))
        return out

    return make


def a_huge_line(folder: Path, place: Path) -> Path:
    with_more(
        folder,
        "results/replies/mathtutorbench/always-0.jsonl",
        lambda path: path.write_text("[" + "{}," * (70 << 20) + "{}]\n"),
    )
    return zipped(folder, place / "run.zip")


def many_small_values(folder: Path, place: Path) -> Path:
    with_more(folder, SCORES, lambda path: path.write_text("[" + "{}," * (30 << 20) + "{}]"))
    return zipped(folder, place / "run.zip")


def nested(folder: Path, place: Path) -> Path:
    with_more(folder, SCORES, lambda path: path.write_text("[" * 30_000 + "]" * 30_000))
    return zipped(folder, place / "run.zip")


def nested_lines(folder: Path, place: Path) -> Path:
    name = "results/replies/mathtutorbench/always-0.jsonl"
    with_more(folder, name, lambda path: path.write_text('{"a":' * 400_000 + "1" + "}" * 400_000 + "\n"))
    return folder


def a_huge_table(folder: Path, place: Path) -> Path:
    with_more(folder, TABLE, lambda path: path.write_text("a," * (200 << 20)))
    return zipped(folder, place / "run.zip")


def a_large_configuration(folder: Path, place: Path) -> Path:
    with_more(folder, "results/report/config.yaml", lambda path: path.write_text("a: [" + "[], " * (40 << 20) + "]"))
    return zipped(folder, place / "run.zip")


def a_nested_configuration(folder: Path, place: Path) -> Path:
    with_more(folder, "results/report/config.yaml", lambda path: path.write_text("[" * 100_000))
    return folder


def names_of_a_terminal(folder: Path, place: Path) -> Path:
    out = zipped(folder, place / "run.zip")
    with zipfile.ZipFile(out, "a") as archive:
        archive.writestr("\x1b[2Jx", b"x")
    return out


def no_manifest(folder: Path, place: Path) -> Path:
    (folder / MANIFEST).write_bytes(os.urandom(1000))
    return folder


def a_tar(folder: Path, place: Path) -> Path:
    with tarfile.open(place / "run.zip", "w") as archive:
        archive.add(folder, "run")
    return place / "run.zip"


STRANGERS: list[tuple[Callable[[Path, Path], Path], str]] = [
    (a_bomb, r"its files have 8,19\d MB in total, more than 4,096"),
    (more_than_it_says, r"run\.zip: cannot be unpacked: BadZipFile"),
    (a_folder_bomb, r"its files have 5,12\d MB in total, more than 4,096"),
    (many_files, r"more/0 was added.*contains more than 100,000 files|more/0 was added"),
    (an_endless_index, r"its list of files is 3,072 MB; the limit is 32 MB"),
    (a_fifo, "results/report/pipe is not a regular file"),
    (a_manifest_fifo, f"{MANIFEST} is not a regular file"),
    (a_device, "zero is a link"),
    (a_link_in_the_archive, "link is a link"),
    (a_pipe_for_an_archive, "expected a folder or a .zip file"),
    (deep_folders, "is more than 32 folders deep"),
    (deep_names, "is more than 32 folders deep"),
    (encrypted, "is encrypted"),
    (damaged(zipfile.ZIP_LZMA), "cannot be unpacked|was altered"),
    (damaged(zipfile.ZIP_BZIP2), "cannot be unpacked|was altered"),
    (damaged(zipfile.ZIP_DEFLATED), "cannot be unpacked|was altered"),
    (a_huge_line, "always-0.jsonl: line 1 has more than 16 MB"),
    (many_small_values, "always-0.json: it has more than 4,000,000 values"),
    (nested, "always-0.json: RecursionError"),
    (nested_lines, "always-0.jsonl"),
    (a_huge_table, "scores.csv: it has 400 MB, more than 64"),
    (a_large_configuration, "config.yaml: cannot be read: more than 8 MB|more than 8 MB"),
    (a_nested_configuration, "nested more than 64 levels deep"),
    (names_of_a_terminal, "contains a control character"),
    (no_manifest, f"{MANIFEST}, line 1: expected a SHA-256 and a name"),
    (a_tar, "expected a folder or a .zip file"),
]


@pytest.mark.slow
@pytest.mark.parametrize(("make", "message"), STRANGERS, ids=[make.__name__ for make, _ in STRANGERS])
def test_a_strangers_archive_takes_one_line(
    make: Callable[[Path, Path], Path], message: str, shared: Path, tmp_path: Path
) -> None:
    """Under 1 GB of memory and 30 seconds."""
    shutil.copytree(shared, tmp_path / "run")
    said, memory, seconds = verified_apart(make(tmp_path / "run", tmp_path))
    assert re.search(message, said) and "Traceback" not in said, said[:2000]
    assert len(said.splitlines()) <= 2 and len(said) < 3000, said[:2000]
    assert memory < 1000 and seconds < 30, (memory, seconds)
    shutil.rmtree(tmp_path / "run", ignore_errors=True)


def test_a_larger_run_is_read_where_that_is_said(shared: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="--most-mb"):
        verify(shared, most_mb=0.1)


def test_nothing_is_unpacked_before_it_is_counted(
    shared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = zipped(shared, tmp_path / "run.zip")
    with zipfile.ZipFile(out, "a") as archive:
        archive.writestr("added", b"x")
    monkeypatch.setattr(zipfile.ZipFile, "extractall", lambda *_: pytest.fail("unpacked"))
    with pytest.raises(UserError, match="added was added"):
        verify(out)


def test_a_file_that_was_made_again_is_compared_also_where_it_is_gone(run: Path, tmp_path: Path) -> None:
    shutil.copytree(run, tmp_path / "own")
    (tmp_path / "own/trust.csv").unlink()
    (tmp_path / "own/tables/more.csv").write_text("a\n")
    assert compare_report_files(tmp_path / "own", run) == [
        "trust.csv: not found",
        "tables/more.csv: the report has no such file",
    ]
